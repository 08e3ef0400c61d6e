#pragma once
// What every result of an experiment says of it, however it was run.

#include <cstdint>

#include "report/result/metrics.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// The facts of a prediction that are the experiment's own. It must outlive them.
RunFacts facts_of_experiment(const Experiment& experiment);

/// Copies of the pipeline, of which the experiment is one; 1 where its program has all of them.
std::int32_t copies_of(const Experiment& experiment);

}  // namespace penstock
