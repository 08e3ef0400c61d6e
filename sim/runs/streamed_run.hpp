#pragma once
// The result of a program that is too long to be stored. Used by simulate.cpp.

#include <optional>

#include "report/result/result.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// True where a run without a timeline is better streamed than stored: beyond 2^24 compute actions, which
/// take about 10 GB stored.
bool is_long(const Scenario& scenario);

/// predict() of a long scenario as a streamed walk (sim/engines/stream.hpp): all figures but the digest and,
/// for synchronous schedules, the steady rate, which are those of lists and of repeated passes. Nothing where
/// only a stored run knows the answer and is not too long for it. Error: as predict(), or why neither can.
std::optional<tl::expected<Result, SimulateError>> streamed_result(const Scenario& scenario,
                                                                   const SimulateOptions& options);

}  // namespace penstock
