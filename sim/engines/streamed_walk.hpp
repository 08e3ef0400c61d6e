#pragma once
// Computes the times of a program while it reads the actions from loops (action_loops.hpp). It stores no
// lists of actions. If the state repeats, it jumps over the repetitions. tests/sim/streamed_walk_test.cpp
// compares it with the other engines.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/rank_ledger.hpp"
#include "sim/engines/steady_state.hpp"

namespace penstock {

/// The bytes that one rank sends to another in a whole run.
struct RankTraffic {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Bytes bytes = 0;
};

/// The result of a streamed walk, which stores neither the action lists nor the start and end of each action.
/// Its figures equal those of a run that stores both.
struct StreamedRun {
  Ns makespan_ns = 0;
  std::vector<RankFigures> ranks;  ///< figures and memory of each rank, without device names
  std::vector<RankTraffic> traffic;
  std::int64_t messages = 0;  ///< number of messages between ranks
  std::int64_t actions = 0;   ///< number of compute actions that the walk placed one by one
  std::int64_t jumped = 0;    ///< number of compute actions that the walk jumped over
  /// The length of the period that the walk used for its last jump over repetitions. The state of the walk
  /// repeats after this time and `period_microbatches` microbatches. Absent if the walk has not jumped.
  std::optional<Ns> period_ns;
  std::int64_t period_microbatches = 0;
};

enum class Jumps : std::uint8_t {
  taken,
  left_out,  // the walk processes every action and never jumps
};

/// Computes the run of an experiment in a streamed walk through `lists`, which replace the experiment's own
/// lists. Links are not shared. Memory grows with the loops and the messages in flight, not with the number
/// of actions. Requires that not_streamed() returns nothing. Returns an error if placement rounds cannot
/// run the lists, because ranks deadlock or members join collectives in different orders.
tl::expected<StreamedRun, std::string> stream(const Experiment& experiment,
                                              std::span<const ActionLoops> lists, Jumps jumps = Jumps::taken);

/// Returns the period of a synchronous program that is repeated without end, like steady_period(). Returns
/// nothing if there is no period within 64 passes, or within 2^22 actions that the walk places one by one.
/// Requires that not_streamed() returns nothing.
std::optional<Period> streamed_period(const Experiment& experiment, std::span<const ActionLoops> lists);

/// Returns the reason why the experiment cannot be run in a streamed walk, as text for messages. Returns
/// nothing if it can. `lists` must contain compute actions only.
std::optional<std::string> not_streamed(const Experiment& experiment, std::span<const ActionLoops> lists);

/// Returns the stages that each rank holds, in ascending order.
std::vector<std::vector<std::int32_t>> stages_by_rank(const Placement& placement, std::size_t ranks);

/// Returns, for each rank, whether its memory changes reach HeldAmounts in the order in which the peaks must
/// count them.
std::vector<TellingOrder> telling_orders(const Experiment& experiment, std::span<const ActionLoops> lists);

/// Returns true if F, B, I and W of a stage all take time.
bool takes_time(const StageCost& cost);
/// Returns true if messages over the edge have bytes, in either direction.
bool has_bytes(const EdgeCost& edge);

}  // namespace penstock
