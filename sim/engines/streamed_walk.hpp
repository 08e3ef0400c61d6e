#pragma once
// Times a program while its actions are generated from loops (action_loops.hpp). No list is stored. If the
// state repeats, the walk jumps. tests/sim/streamed_walk_test.cpp compares it with the other engines.

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

/// The result of a streamed walk. Its figures equal the figures of a stored run. Figures that need spans are
/// missing.
struct StreamedRun {
  Ns makespan_ns = 0;
  std::vector<RankFigures> ranks;  ///< figures and memory of each rank, without device names
  std::vector<RankTraffic> traffic;
  std::int64_t messages = 0;  ///< number of messages between ranks
  std::int64_t actions = 0;   ///< number of compute actions that the walk placed one by one
  std::int64_t jumped = 0;    ///< number of compute actions that the walk jumped over
  /// Period of the last jump: the time and the number of microbatches after which the state repeats.
  std::optional<Ns> period_ns;
  std::int64_t period_microbatches = 0;
};

enum class Jumps : std::uint8_t {
  taken,
  left_out,  // the walk places every action one by one
};

/// Walks through `lists`, which replace the experiment's own lists. Every transfer has its route to itself.
/// Memory grows with the stored loops and the messages in flight. Requires that not_streamed()
/// (streamed_walk.hpp) returns nothing. Error: the order cannot be executed, or the members of a collective
/// do not join it in one order.
tl::expected<StreamedRun, std::string> stream(const Experiment& experiment,
                                              std::span<const ActionLoops> lists, Jumps jumps = Jumps::taken);

/// Returns the period of a synchronous program that is repeated without end, like steady_period(). Returns
/// nothing if no period shows within 64 passes, or within 2^22 actions that the walk places one by one.
/// Requires that not_streamed() returns nothing.
std::optional<Period> streamed_period(const Experiment& experiment, std::span<const ActionLoops> lists);

// Checks a program before a streamed walk (streamed_walk.cpp) starts.

/// Returns the property of the experiment that a streamed walk cannot handle, or nothing if it can run.
/// `lists` must contain compute actions only.
std::optional<std::string> not_streamed(const Experiment& experiment, std::span<const ActionLoops> lists);

/// Returns the stages that each rank holds, ascending.
std::vector<std::vector<std::int32_t>> stages_by_rank(const Placement& placement, std::size_t ranks);

/// Returns for each rank whether its memory changes are reported in the order in which peaks count them.
std::vector<TellingOrder> telling_orders(const Experiment& experiment, std::span<const ActionLoops> lists);

/// Returns whether all passes of a stage take time.
bool takes_time(const StageCost& cost);
/// Returns whether a message over the edge has bytes in either direction.
bool has_bytes(const EdgeCost& edge);

}  // namespace penstock
