// A RECV that is posted early can delay later transfers in its queue. This pass moves each RECV to the action
// that reads its message:
//
//   0F0 0SEND_F0 0RECV_B0 0F1 0SEND_F1 0B0   ->   0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0
//
// First, all RECVs are moved. If the result hangs or its messages cross, the RECVs in the cycle return to
// their old positions, and the check is repeated. Tested by defer_receives_test.cpp.

#include "schedules/passes/defer_receives.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/crossed_messages.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/stalled_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// A flag for each RECV that may move, by rank and position in the lowered list.
using Deferred = std::vector<std::vector<bool>>;

/// Returns true if `consumer` reads the message of `recv`. The first such action in the list uses it.
bool takes(const Action& consumer, const Action& recv, RecomputeTiming recompute) {
  if (consumer.stage != recv.stage || consumer.microbatch != recv.microbatch) return false;
  return input_of(consumer.kind, recompute) == flow_of(recv.kind);
}

/// Returns one rank's list in which each deferred RECV is before the group that reads its message.
std::vector<Action> with_deferred(const std::vector<Action>& list, const std::vector<bool>& deferred,
                                  RecomputeTiming recompute) {
  std::vector<Action> result;
  // The deferred RECVs that are not in `result` yet, in list order.
  std::vector<Action> held;
  result.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (deferred[i]) {
      held.push_back(list[i]);
      continue;
    }
    const std::size_t end = opens_group(list, i) ? group_end(list, i) : i;
    for (std::size_t leaf = i; leaf < end; ++leaf) {
      const auto needed = [&](const Action& recv) { return takes(list[leaf], recv, recompute); };
      std::ranges::copy_if(held, std::back_inserter(result), needed);
      std::erase_if(held, needed);
    }
    result.push_back(list[i]);
  }
  // RECVs with messages that no action of the rank reads are appended at the end.
  result.insert(result.end(), held.begin(), held.end());
  return result;
}

Program with_deferred(const Program& lowered, const Deferred& deferred) {
  Program program = lowered;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    program.ranks[rank] = with_deferred(lowered.ranks[rank], deferred[rank], lowered.recompute);
  }
  return program;
}

/// Returns true if both are the same action of the list. In later iterations, an action has a higher
/// microbatch number.
bool same_in_list(const Action& listed, const Action& met, std::int32_t units) {
  return listed.kind == met.kind && listed.stage == met.stage && listed.peer == met.peer &&
         listed.microbatch == met.microbatch % units;
}

/// Returns the deferred RECVs among `in_the_way` to their old positions. If none of them was deferred,
/// returns all RECVs of one of their ranks. The result is false if no RECV could be returned.
bool put_back(Deferred& deferred, const Program& lowered, const std::vector<WaitFor>& in_the_way) {
  bool changed = false;
  const auto keep = [&](const WaitFor& wait, bool whole_rank) {
    const auto rank = static_cast<std::size_t>(wait.rank);
    for (std::size_t i = 0; i < lowered.ranks[rank].size(); ++i) {
      const bool meant =
          whole_rank || same_in_list(lowered.ranks[rank][i], wait.action, lowered.unit_count());
      if (!meant || !deferred[rank][i]) continue;
      deferred[rank][i] = false;
      changed = true;
    }
  };
  for (const WaitFor& wait : in_the_way) keep(wait, false);
  // The cycle may consist of RECVs that were not moved. Then all RECVs of one rank return to their old
  // positions. Each round returns at least one RECV, so the loop ends, at the latest with the original lists.
  for (std::size_t i = 0; i < in_the_way.size() && !changed; ++i) keep(in_the_way[i], true);
  return changed;
}

/// Returns the actions that cause a hang or crossed messages in `candidate`. For a hang they are the cycle,
/// which contains the RECVs that are too late. Eager messages that cross form no cycle, so their RECVs are
/// returned.
std::vector<WaitFor> obstacles(const Program& candidate, const ChannelOptions& channels,
                               const CostTable& costs) {
  const FlatProgram flat =
      flatten(candidate, costs, {.channels = channels, .iterations = std::min(candidate.iterations, 2)});
  if (auto hang = find_stall(flat, channels)) return std::move(hang->cycle);
  std::vector<WaitFor> receives;
  if (channels.eager_bytes == 0) return receives;
  for (const CrossedMessage& one : crossed_messages(candidate, channels.model)) {
    receives.push_back(
        {.rank = one.peer, .position = one.peer_position, .action = one.receive, .waits_for = {}});
  }
  return receives;
}

}  // namespace

Program defer_receives(const Program& lowered, const ChannelOptions& channels, const CostTable& costs) {
  Deferred deferred;
  for (const auto& list : lowered.ranks) {
    auto& of_rank = deferred.emplace_back();
    for (const Action& action : list) of_rank.push_back(is_recv(action.kind));
  }
  for (;;) {
    Program candidate = with_deferred(lowered, deferred);
    const std::vector<WaitFor> in_the_way = obstacles(candidate, channels, costs);
    if (in_the_way.empty()) return candidate;
    if (!put_back(deferred, lowered, in_the_way)) return lowered;
  }
}

}  // namespace penstock
