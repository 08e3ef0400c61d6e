#pragma once
// Finds the steady state of an asynchronous schedule (UpdateRule::microbatch). This is the state of an
// endless stream of microbatches after its pipeline has filled. The result does not depend on the
// scenario's number of microbatches. Used by simulate.cpp.

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
  /// True if the rate is that of an exact period. False if it is a mean over rounds of the replicas.
  bool is_exact = true;
  std::vector<RankMemory> memories;  ///< one element for each rank, with peaks but without curves
  bool is_of_any_length = true;      ///< true if the scenario's number of microbatches has no effect
};

/// A number of microbatches of a stream, and the time that they take.
struct StreamRate {
  Period period;  ///< has 0 microbatches if the stream is too short for a rate
  bool is_exact = true;
};

/// The largest number of attempts to find a period. Each attempt runs a stream that is four times as long
/// as the one before.
inline constexpr int kStreamAttempts = 4;

/// The figures of a stream that the caller wants, and the facts that the caller already knows.
struct StreamQuestion {
  int attempts = kStreamAttempts;  ///< maximum number of attempts; if no attempt finds a period, the last one
                                   ///< gives a mean
  int known_without_period = 0;    ///< number of first attempts that are known to find no period
  bool peaks = true;               ///< true: compute `memories` as well
  /// Number of lowered actions of one pass of the experiment. If absent, lowered_actions() counts them.
  std::optional<std::int64_t> actions_of_pass{};
};

/// Returns the period of a stream that ran as one iteration of `program`. If the stream has no period,
/// returns the mean over whole rounds of its replicas.
StreamRate rate_of_stream(const EngineRun& run, const Program& program);
StreamRate rate_of_stream(const Timeline& run, const Program& program);

/// Returns the number of actions in the experiment's program after lowering, with a SEND and a RECV for
/// each message between ranks. The program may be lowered already.
std::int64_t lowered_actions(const Experiment& experiment);

/// Returns the steady state of the stream that begins with the experiment's microbatches. The experiment's
/// numbers of microbatches and iterations do not change the result. Returns nothing if the weights are
/// updated only once for each minibatch, or if no schedule rule made the program. Also returns nothing if a
/// stream that fills the pipeline is too long to run.
std::optional<EndlessStream> endless_stream(const StreamQuestion& question, const Experiment& experiment,
                                            Engine engine);

}  // namespace penstock
