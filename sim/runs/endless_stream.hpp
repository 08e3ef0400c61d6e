#pragma once
// Finds the steady state of an asynchronous schedule (UpdateRule::microbatch), which is one stream without an
// end. The result does not depend on the number of microbatches of the scenario. Used by simulate.cpp.

#include <cstdint>
#include <optional>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"

namespace penstock {

/// The steady state of a stream.
struct EndlessStream {
  std::optional<double> samples_per_second;  ///< absent if the stream takes no time
  bool is_exact = true;  ///< true: the period is exact; false: the rate is a mean over rounds of the replicas
  std::vector<RankMemory> memories;  ///< one element for each rank, with peaks but without curves
  bool is_of_any_length = true;      ///< true if the scenario's number of microbatches has no effect
};

/// The time that a number of a stream's microbatches takes.
struct StreamRate {
  Period period;  ///< 0 microbatches if the stream is too short for a rate
  bool is_exact = true;
};

inline constexpr int kStreamAttempts = 4;  ///< each attempt uses a stream four times as long as the last one

/// The figures that the caller wants of a stream, and what the caller already knows.
struct StreamQuestion {
  int attempts = kStreamAttempts;  ///< maximum number of attempts; the last one gives a mean if there is no
                                   ///< period
  int known_without_period = 0;    ///< number of first attempts that are known to show no period
  bool peaks = true;               ///< true: compute `memories` as well
  /// Number of actions of one pass of the experiment. Absent: the value of lowered_actions().
  std::optional<std::int64_t> actions_of_pass{};
};

/// Returns the period of a stream that ran as one iteration of `program`. If it shows no period, returns the
/// mean over whole rounds of its replicas.
StreamRate rate_of_stream(const EngineRun& run, const Program& program);
StreamRate rate_of_stream(const Timeline& run, const Program& program);

/// Returns the number of actions of the experiment's lowered program, whether it is lowered or not. Each
/// message between ranks has a SEND and a RECV.
std::int64_t lowered_actions(const Experiment& experiment);

/// Returns the steady state of the stream that begins with the experiment's microbatches. The number of
/// microbatches and of iterations of the experiment do not change the result. Returns nothing if updates come
/// once for each minibatch, or if the program comes from a file or was made by hand. Also returns nothing if
/// a stream that fills the pipeline is too long for the engines.
std::optional<EndlessStream> endless_stream(const StreamQuestion& question, const Experiment& experiment,
                                            Engine engine);

}  // namespace penstock
