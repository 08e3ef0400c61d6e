#pragma once
// The result of a program that nobody wants to see the spans of, or that is too long to be stored. Used by
// simulate.cpp.

#include <optional>
#include <string>

#include "report/result/result.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Compute actions: what is longer is refused as a shape.
inline constexpr double kMostGenerated = 1LL << 40;

/// True where a run without a timeline is better streamed than stored: beyond 2^24 compute actions, which
/// take 5 GB and more stored. False where it cannot be streamed in any case (may_be_rolled()).
bool is_long(const Scenario& scenario);

/// Why a run has no timeline that any machine could hold; nothing where it has one, and of shapes that
/// prepare() refuses.
std::optional<std::string> timeline_refusal(const Scenario& scenario);

/// predict() of a long scenario as a streamed walk (sim/engines/streamed_walk.hpp): all figures but the
/// digest and, for synchronous schedules, the steady rate, which are those of lists and of repeated passes.
/// Nothing where only a stored run knows the answer and is not too long for it. Error: as predict(), or why
/// neither can.
std::optional<tl::expected<Result, SimulateError>> streamed_result(const Scenario& scenario,
                                                                   const SimulateOptions& options);

/// predict() of a scenario that is not long, by the same walk: a stored run to the last figure, but for its
/// timeline. Nothing where a stored run is needed, or has to say what is wrong.
std::optional<Prediction> short_streamed_run(const Scenario& scenario, const SimulateOptions& options);

}  // namespace penstock
