#pragma once
// What an asynchronous stream takes for a microbatch once its pipeline is full, from one run of it.

#include <cstdint>
#include <optional>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/period.hpp"

namespace penstock {

/// steady_period() of an asynchronous stream that ran already as one iteration of `program`, whose lists are
/// not read.
std::optional<Period> period_of_stream(const EngineRun& run, const Program& program);
std::optional<Period> period_of_stream(const Timeline& run, const Program& program);

/// What a stream that shows no period takes for whole rounds of `round` microbatches each, once its pipeline
/// is full and before it drains. Empty where it has no such round.
std::optional<Period> mean_of_rounds(const EngineRun& run, const Program& program, std::int64_t round);
std::optional<Period> mean_of_rounds(const Timeline& run, const Program& program, std::int64_t round);

/// How many consecutive microbatches of a stream can depend on each other directly; a stream shows its
/// period when it is several times as long. The same of a compute program and of the lowered one.
std::int32_t dependency_depth(const Program& program);

}  // namespace penstock
