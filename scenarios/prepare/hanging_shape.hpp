#pragma once
// The smallest shape with which a generated schedule hangs, for `penstock check --shrink`.

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// An experiment and the shape that it was generated for.
struct ShapedExperiment {
  Experiment experiment;
  Shape shape;  ///< microbatches are those of the experiment's program
};

/// Tries smaller K, then v, then M, each from 1 on, and returns the first experiment that hangs under the
/// scenario's channels; `hanging` itself where none does. Shapes that are refused are passed over. Gives up
/// after some seconds' worth of actions. Requires a scenario without `program`, and prepare(scenario) ==
/// `hanging`.
ShapedExperiment smallest_hanging_shape(const Scenario& scenario, Experiment hanging);

}  // namespace penstock
