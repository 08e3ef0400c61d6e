#pragma once
// The figures of a sweep's row, for which nothing is stored but a compute program and its tape. Used by
// simulate.cpp.

#include <optional>

#include <tl/expected.hpp>

#include "scenarios/read/scenario.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// predict() with WantedFigures::of_rows. Nothing where only a lowered program knows the answer: for
/// asynchronous schedules, repeated passes, collectives, links that messages share, channels that block or
/// have a capacity or an eager size, and programs that cannot be executed. Error: as predict().
std::optional<tl::expected<Prediction, SimulateError>> row_prediction(const Scenario& scenario,
                                                                      const SimulateOptions& options);

}  // namespace penstock
