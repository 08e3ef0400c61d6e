#pragma once
// A simulator as one writes it for a notebook: what the engines' times are set against.

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// The timeline of one iteration of F, B and STEP on a chain of stages, over links that take their latency
/// and no more. Throws std::runtime_error at anything else, and where the lists wait for each other.
Timeline plain_walk(const Experiment& experiment);

}  // namespace penstock
