#pragma once
// Reads Megatron-LM's timers of all ranks from a training log (--timing-log-level 2 --timing-log-option all).
// A timer is the time of one rank in an iteration, summed over its microbatches. So timers show the costs of
// stages, but not the order in which actions ran.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The shape of the job, with the numbers that the user states. Absent values are taken from the arguments in
/// the log.
struct TimersShape {
  std::optional<std::int64_t> stages{};  ///< number of ranks of a pipeline (K)
  std::optional<std::int64_t> microbatches{};
  std::optional<std::int64_t> chunks{};  ///< number of model chunks of a rank (v)
};

/// The ranks that hold the same stages, and their times.
struct TimedStage {
  std::vector<std::int32_t> ranks;
  /// The times of the two passes of one microbatch through one chunk. Each is the median over the ranks.
  Ns forward_ns = 0;
  Ns backward_ns = 0;
  std::int32_t slowest_rank = 0;
  double slower = 0;  ///< time of the slowest rank divided by the median over the ranks, minus 1

  Ns work_ns() const { return forward_ns + backward_ns; }
};

/// Megatron-LM's timers, as read from a log.
struct MegatronTimers {
  /// Number of times that the log has the timers; all times below are medians over these.
  std::int32_t reports = 0;
  std::int32_t ranks = 0;
  std::int32_t microbatches = 0;
  std::int32_t chunks = 1;
  std::vector<TimedStage> stages;  ///< one stage for each of the K ranks of a pipeline
  /// The time of all forward and backward passes of one iteration, on the slowest rank. Absent if the log
  /// does not have the timer forward-backward.
  std::optional<Ns> passes_ns{};
};

/// Returns true if the text contains Megatron-LM's timers of all ranks.
bool has_megatron_timers(std::string_view text);

/// Reads Megatron-LM's timers from a log. Consecutive ranks are assumed to hold the same stage, as in
/// Megatron's default order tp-cp-ep-dp-pp. Errors have the form "FILE: expected ..., got ...".
tl::expected<MegatronTimers, std::string> read_megatron_timers(std::string_view text, const std::string& file,
                                                               const TimersShape& stated);

/// Returns a scenario with the costs of the stages and the schedule. `name` is the name of the log.
std::string timers_scenario(const MegatronTimers& timers, std::string_view schedule, const std::string& name);

}  // namespace penstock
