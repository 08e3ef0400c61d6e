//   0F0 0SEND_F0 0RECV_B0 0F1 0SEND_F1 0B0   ->   0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0
//
// All RECVs move at first. While the result hangs or its messages cross, those that are in the way go back to
// their old places.

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

/// By rank and place in the lowered list: whether the RECV there may move.
using Deferred = std::vector<std::vector<bool>>;

/// Whether the message of `recv` is what `consumer` reads. The first in the list that does takes it.
bool takes(const Action& consumer, const Action& recv, RecomputeTiming recompute) {
  if (consumer.stage != recv.stage || consumer.microbatch != recv.microbatch) return false;
  return input_of(consumer.kind, recompute) == flow_of(recv.kind);
}

/// One rank's list with its deferred RECVs in front of the groups that take them.
std::vector<Action> with_deferred(const std::vector<Action>& list, const std::vector<bool>& deferred,
                                  RecomputeTiming recompute) {
  std::vector<Action> result;
  // RECVs on their way to the group that takes them, in the order of the list.
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
  // What nothing on the rank takes comes last.
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

/// The actions of later iterations carry higher numbers than those of the list.
bool same_in_list(const Action& listed, const Action& met, std::int32_t units) {
  return listed.kind == met.kind && listed.stage == met.stage && listed.peer == met.peer &&
         listed.microbatch == met.microbatch % units;
}

/// Puts the RECVs among `in_the_way` back or, if none of them was deferred, all RECVs of their ranks. Returns
/// false if there was nothing to put back.
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
  // The cycle may run through RECVs that stand where they were; then a whole rank of it goes back.
  // Something goes back each time, so that the loop ends, at the latest with the lists as they were
  // lowered.
  for (std::size_t i = 0; i < in_the_way.size() && !changed; ++i) keep(in_the_way[i], true);
  return changed;
}

/// Returns the actions that keep `candidate` from ending on the channels with each SEND at its own RECV. The
/// cycle that joins messages by name shows which RECV went too far back; eager messages that cross have none.
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
