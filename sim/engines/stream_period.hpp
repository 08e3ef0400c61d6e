#pragma once
// Finds the time that an asynchronous stream takes for a microbatch when its pipeline is full, from one run.

#include <cstdint>
#include <optional>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/period.hpp"

namespace penstock {

/// Returns the steady_period() of an asynchronous stream that has run as one iteration of `program`. The
/// lists of `program` are not read.
std::optional<Period> period_of_stream(const EngineRun& run, const Program& program);
std::optional<Period> period_of_stream(const Timeline& run, const Program& program);

/// Returns the mean time of rounds of `round` microbatches each, while the pipeline is full. It is used for a
/// stream that shows no period. Returns nothing if the stream is too short for such rounds.
std::optional<Period> mean_of_rounds(const EngineRun& run, const Program& program, std::int64_t round);
std::optional<Period> mean_of_rounds(const Timeline& run, const Program& program, std::int64_t round);

/// Returns the number of consecutive microbatches of a stream that can depend on each other directly. A
/// stream that is several times as long shows its period. A compute program and its lowered program have the
/// same depth.
std::int32_t dependency_depth(const Program& program);

}  // namespace penstock
