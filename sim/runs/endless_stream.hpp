#pragma once
// An asynchronous schedule (UpdateRule::microbatch) is one stream without an end: what it comes to once its
// pipeline is full, however many microbatches the scenario runs. Used by simulate.cpp.

#include <cstdint>
#include <optional>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/period.hpp"

namespace penstock {

/// The steady state of a stream.
struct EndlessStream {
  std::optional<double> samples_per_second;  ///< absent: of a stream that takes no time
  bool is_exact = true;  ///< a period showed; otherwise the rate is that of whole rounds of the replicas
  std::vector<RankMemory> memories;  ///< one a rank; peaks, no curve
  bool is_of_any_length = true;      ///< the scenario's number of microbatches was not asked for
};

/// What microbatches of a stream take, over how many of them.
struct StreamRate {
  Period period;  ///< of 0 microbatches where the stream is too short to say
  bool is_exact = true;
};

inline constexpr int kStreamAttempts = 4;  ///< each on a stream four times as long as the one before

/// What is asked of a stream beside its rate, and what is known of it.
struct StreamQuestion {
  int attempts = kStreamAttempts;  ///< a stream that would repeat later has the mean of its rounds
  int known_without_period = 0;    ///< of these attempts, the first ones
  bool peaks = true;               ///< `memories`, too
  /// How many actions one pass of the experiment counts as; absent: lowered_actions().
  std::optional<std::int64_t> actions_of_pass{};
};

/// The period of a stream that ran as one iteration of `program`, or the mean over whole rounds of its
/// replicas.
StreamRate rate_of_stream(const EngineRun& run, const Program& program);
StreamRate rate_of_stream(const Timeline& run, const Program& program);

/// Returns the number of actions of the experiment's lowered program, whatever form it has: SENDs and RECVs
/// are two a message between ranks.
std::int64_t lowered_actions(const Experiment& experiment);

/// Returns the steady state of the stream that the experiment is a part of, in which it has another number of
/// microbatches. Neither its own number of microbatches nor its iterations change the answer. Nothing when it
/// has no such stream: updates come once a minibatch, its program is a file (whose length is its own), it was
/// made by hand, or a stream that fills the pipeline is beyond the engines.
std::optional<EndlessStream> endless_stream(const StreamQuestion& question, const Experiment& experiment,
                                            Engine engine);

}  // namespace penstock
