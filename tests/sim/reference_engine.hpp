#pragma once
// A slow and simple engine, with which all other engines are compared. Only tests and benchmarks use it.

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// Returns the timeline of a program that does not hang. It increases start times until every rule is true.
/// It does not use FlatProgram. It takes at least cubic time, so it is for a few hundred actions.
Timeline reference_engine(const Experiment& experiment);

}  // namespace penstock
