#pragma once
// A simulator as one would write it in a notebook. The engines' times are compared with it.

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// Returns the timeline of one iteration of F, B and STEP on a chain of stages, over links that take only
/// their latency. Throws std::runtime_error for anything else, and if the lists wait for each other.
Timeline plain_walk(const Experiment& experiment);

}  // namespace penstock
