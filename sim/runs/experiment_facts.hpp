#pragma once
// The facts of a result that depend only on the experiment, so that every engine states the same ones.

#include <cstdint>

#include "report/result/metrics.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// Returns the facts of a prediction that depend only on the experiment. The experiment must outlive them.
RunFacts facts_of_experiment(const Experiment& experiment);

/// Returns the number of copies of the pipeline, of which the experiment contains one. Returns 1 if its
/// program contains all copies.
std::int32_t copies_of(const Experiment& experiment);

}  // namespace penstock
