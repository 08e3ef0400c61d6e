#pragma once
// Periods: so many microbatches, again and again, in so long. steady_period() has that of a repeated program,
// and period_of_stream() that of the middle of an asynchronous stream.

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

/// The period of a program: `microbatches`, over all replicas, take exactly `period_ns`, again and again.
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

// Finds the period of a program that is repeated for ever.
//
// A deterministic program is a max-plus linear system: the start times of one repetition are maxima of sums
// of the times before it. So if all times have moved by one amount, they always will.

/// Returns the period of a synchronous program that is repeated without end, with no barrier except its own.
/// For an asynchronous program (UpdateRule::microbatch) it is the period in the middle of the stream. Returns
/// nothing if the stream is too short, or if 64 repetitions show no period.
std::optional<Period> steady_period(const Experiment& experiment, Engine engine);
/// Like the other steady_period(), but uses `run`, the experiment's existing run on the engine.
std::optional<Period> steady_period(const Experiment& experiment, Engine engine, const EngineRun& run);

/// Returns the period of a synchronous program from passes of its tape, of which at most one has run.
/// `actions` is the number of the program's actions, including SENDs and RECVs.
std::optional<Period> period_of_passes(const Program& program, std::size_t actions, RepeatedTape& passes);

// Finds the time that an asynchronous stream takes for a microbatch when its pipeline is full, from one run.

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
