#pragma once
// Finds the smallest shape with which a generated schedule hangs, for `penstock check --shrink`.

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// An experiment and the shape from which its program was generated.
struct ShapedExperiment {
  Experiment experiment;
  Shape shape;  ///< with the microbatches of the experiment's program
};

/// Returns the first smaller experiment that hangs under the scenario's channels, or `hanging` if there is
/// none. It tries all K, v and M in ascending order, and K changes slowest. It skips shapes that the schedule
/// refuses, and gives up after several million actions. Requires a scenario without `program`, and
/// prepare(scenario) == `hanging`.
ShapedExperiment smallest_hanging_shape(const Scenario& scenario, Experiment hanging);

}  // namespace penstock
