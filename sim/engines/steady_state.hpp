#pragma once
// Finds periods: the time that a number of microbatches takes again and again. steady_period() finds the
// period of a repeated program, and period_of_stream() finds it in the middle of an asynchronous stream.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"

namespace penstock {

/// The period of a program in its steady state. After every `period_ns`, `microbatches` more microbatches
/// of all replicas together are complete.
struct Period {
  Ns period_ns = 0;
  std::int64_t microbatches = 0;

  friend bool operator==(const Period&, const Period&) = default;
};

/// Returns the samples per second. Requires a period longer than 0 ns.
constexpr double samples_per_second(const Period& period, double samples_per_microbatch) {
  return static_cast<double>(period.microbatches) * samples_per_microbatch * 1e9 /
         static_cast<double>(period.period_ns);
}

//
// A deterministic program is a max-plus linear system: the start times of one repetition are maxima of sums
// of earlier times. If all times of two repetitions differ by one amount, those of all later repetitions do
// as well.

/// Returns the period of a program in its steady state. A synchronous program is repeated without end;
/// ranks wait for each other between repetitions only if it has a barrier. For an asynchronous program
/// (UpdateRule::microbatch), it is the period in the middle of the stream. Returns nothing if the stream is
/// too short, or if 64 repetitions have no period.
std::optional<Period> steady_period(const Experiment& experiment, Engine engine);
/// Returns the same period as the other steady_period(). `run` must be a run of the experiment by the same
/// engine, which is then not repeated.
std::optional<Period> steady_period(const Experiment& experiment, Engine engine, const EngineRun& run);

/// Returns the period of a synchronous program from passes over its tape, or nothing if there is none. At
/// most one pass may have run before. `actions` is the number of the program's actions, including SENDs and
/// RECVs.
std::optional<Period> period_of_passes(const Program& program, std::size_t actions, RepeatedTape& passes);

/// Returns the period of an asynchronous stream, or nothing if it has none. The stream must have run as one
/// iteration of `program`. The lists of `program` are not used.
std::optional<Period> period_of_stream(const EngineRun& run, const Program& program);
std::optional<Period> period_of_stream(const Timeline& run, const Program& program);

/// Returns the mean time of `round` microbatches while the pipeline is full. It is used for streams without
/// a period. Returns nothing if the stream is too short.
std::optional<Period> mean_of_rounds(const EngineRun& run, const Program& program, std::int64_t round);
std::optional<Period> mean_of_rounds(const Timeline& run, const Program& program, std::int64_t round);

/// Returns the depth of a stream: the number of consecutive microbatches that can directly depend on each
/// other. A period becomes visible only if the stream is several times as long. A compute program and its
/// lowered program have the same depth.
std::int32_t dependency_depth(const Program& program);

}  // namespace penstock
