// Finds hangs. A valid program can still hang, because two ranks may each wait for a message that the other
// one sends later. This file walks the program without durations (walk.hpp). If the walk stalls, every
// remaining position waits for another one. A compute action waits for its messages. The position at which a
// rank stopped is its cursor, and later positions of the rank wait for the cursor. A transfer waits for the
// previous transfer in its queue, or for its other end. The hang is a cycle of these waits. The last part of
// this file finds the cycle.
//
// The walk joins each SEND with the RECV of the same message. Crossed messages therefore stall the walk,
// unless they are eager. Such a program is walked a second time. Each RECV is then joined with the SEND that
// it meets on a transport without tags. launch_order.cpp has the additional rule of NCCL. Tested by
// channel_check_test.cpp.
#include "schedules/check/channel_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// The waits between actions after a walk has stalled. An action is named by its position in the flat
/// program. Actions after a rank's cursor wait for the action at the cursor.
///
///   rank 0   0F0 0SEND_F0 0RECV_B0 [0B0] 0F1 0SEND_F1          [ ] the cursor
///   rank 1   1RECV_F0 1F0 1RECV_F1 [1F1] 1B0 1SEND_B0
///
///   A > B: A waits for B     0B0 > 0RECV_B0 > 1SEND_B0 > 1F1 > 1RECV_F1 > 0SEND_F1 > 0B0
class WaitGraph {
 public:
  WaitGraph(const FlatProgram& flat, const WalkState& stalled, const ChannelOptions& channels)
      : flat_(flat), stalled_(stalled) {
    for (std::size_t id = 0; id < flat.messages.size(); ++id) {
      const FlatMessage& message = flat.messages[id];
      // A message that could start does not delay the messages after it in a queue.
      if (stalled.pending[id] == 0) continue;
      const auto before = static_cast<std::int32_t>(id);
      if (message.next_at_sender != kNone) {
        before_.emplace(std::pair(message.from_rank, message.next_at_sender), before);
      }
      if (message.next_at_receiver != kNone) {
        before_.emplace(std::pair(message.to_rank, message.next_at_receiver), before);
      }
      if (message.recv == kNone || !has_followers(flat, channels)) continue;
      note_followers(channels.model, message.from_rank, message.first);
      note_followers(channels.model, message.to_rank, message.recv);
    }
    for (std::int32_t p = 0; p < static_cast<std::int32_t>(flat.released_by_consumer.size()); ++p) {
      std::int32_t id = flat.released_by_consumer[index(p)];
      for (; id != kNone; id = flat.messages[index(id)].next_of_capacity) holders_.emplace(id, p);
    }
  }

  /// Returns the positions of the actions for which the action at `position` waits.
  std::vector<std::int32_t> waits_for(std::int32_t position) const {
    const std::int32_t rank = flat_.rank_of(position);
    const std::int32_t cursor = stalled_.cursor[index(rank)];
    // The rank has not reached this position yet, so it waits for the cursor.
    if (!is_reached(position, cursor)) return {cursor};
    std::vector<std::int32_t> waits = own_waits(rank, position);
    if (position == cursor && flat_.is_grouped(position)) add_group(position, waits);
    return waits;
  }

  std::vector<std::int32_t> stalled_positions() const {
    std::vector<std::int32_t> found;
    for (std::size_t rank = 0; rank < stalled_.cursor.size(); ++rank) {
      if (stalled_.cursor[rank] < flat_.rank_begin[rank + 1]) found.push_back(stalled_.cursor[rank]);
    }
    return found;
  }

 private:
  /// Returns true if the rank has reached the position. A rank that stands at a group of transfers has
  /// reached all positions of the group.
  bool is_reached(std::int32_t position, std::int32_t cursor) const {
    return position <= cursor ||
           (flat_.is_grouped(position) && flat_.transfer_group[index(position)] == cursor);
  }

  void note_followers(ChannelModel model, std::int32_t rank, std::int32_t position) {
    const std::int32_t end = flat_.rank_begin[index(rank) + 1];
    for_each_follower(flat_, model, position, end, [&](std::int32_t follower) {
      before_.emplace(std::pair(rank, flat_.message[index(follower)]), flat_.message[index(position)]);
    });
  }

  /// Adds to `waits` the other transfers of the group at `first` that have not started. The rank waits for
  /// all of them.
  void add_group(std::int32_t first, std::vector<std::int32_t>& waits) const {
    for (std::int32_t p = first + 1; p < flat_.transfer_group_end(first); ++p) {
      const bool is_transfer = flat_.ops[index(p)] == FlatOp::send || flat_.ops[index(p)] == FlatOp::recv;
      if (is_transfer && !passed(flat_.message[index(p)])) waits.push_back(p);
    }
  }

  /// Returns the positions of the actions for which the action at `position` itself waits. Requires that the
  /// rank has reached it.
  std::vector<std::int32_t> own_waits(std::int32_t rank, std::int32_t position) const {
    switch (flat_.ops[index(position)]) {
      case FlatOp::compute:
      case FlatOp::wait:
        return missing_messages(position);
      case FlatOp::send:
      case FlatOp::recv:
        // The rank may wait at a group in which some transfers have already started. A started transfer waits
        // for nothing.
        if (passed(flat_.message[index(position)])) return {};
        return transfer_waits(rank, position);
      case FlatOp::collective:
      case FlatOp::barrier:
        return collective_waits(rank, position);
      // The walk passes these positions as soon as it reaches them, so a cursor never stops at one of them.
      case FlatOp::leaf:
      case FlatOp::reshard:
        return {};
    }
    return {};
  }

  /// Returns true if the message, collective or barrier with number `id` waits for no more events, so that it
  /// could start.
  bool passed(std::int32_t id) const { return stalled_.pending[index(id)] == 0; }

  /// Returns the messages and collectives for which a position waits. For a group of compute actions, they
  /// are the RECVs and collectives that it needs and that have not started. For a WAIT, they are the SENDs
  /// or the REDUCE_GRAD that have not started.
  std::vector<std::int32_t> missing_messages(std::int32_t position) const {
    std::vector<std::int32_t> missing;
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      if (!passed(flat_.message[index(w)])) missing.push_back(w);
    }
    return missing;
  }

  /// Returns the position of the SEND or the RECV of message `id`, whichever is on `rank`.
  std::int32_t end_on(std::int32_t rank, std::int32_t id) const {
    const FlatMessage& message = flat_.messages[index(id)];
    return message.from_rank == rank ? message.first : message.recv;
  }

  /// Returns the positions of the actions that must end before the transfer at `position` is first in its
  /// queue on `rank`.
  std::vector<std::int32_t> own_end_waits(std::int32_t rank, std::int32_t position) const {
    std::vector<std::int32_t> waits;
    const std::int32_t id = flat_.message[index(position)];
    // A message that follows several eager messages waits for all of them.
    const auto [first, last] = before_.equal_range({rank, id});
    for (auto entry = first; entry != last; ++entry) waits.push_back(end_on(rank, entry->second));
    if (flat_.ops[index(position)] != FlatOp::recv) return waits;
    const auto [holder, last_holder] = holders_.equal_range(id);
    for (auto entry = holder; entry != last_holder; ++entry) {
      // A consumer at or after the cursor has not run yet. The message that it reads still occupies a place
      // in the queue.
      if (entry->second >= stalled_.cursor[index(rank)]) waits.push_back(entry->second);
    }
    return waits;
  }

  /// Returns the positions of the actions for which one end of a transfer (its SEND or its RECV on `rank`)
  /// waits. If nothing in the rank's own queue delays this end, it waits for the other end of the transfer.
  /// The result is then the position of that end.
  std::vector<std::int32_t> transfer_waits(std::int32_t rank, std::int32_t position) const {
    std::vector<std::int32_t> waits = own_end_waits(rank, position);
    if (!waits.empty()) return waits;
    const FlatMessage& message = flat_.messages[index(flat_.message[index(position)])];
    const std::int32_t other = position == message.recv ? message.first : message.recv;
    return {other};
  }

  /// Returns the positions for which a collective waits. If the previous collective on the rank has not
  /// started, returns only this one. Otherwise returns the members that have not reached this collective, or
  /// that wait for an earlier one.
  std::vector<std::int32_t> collective_waits(std::int32_t rank, std::int32_t position) const {
    const std::int32_t id = flat_.message[index(position)];
    // The collectives of a rank start one after another, so the previous one may delay this one. The search
    // is slow in a long list, but it runs only for a few positions of a program that hangs.
    for (std::int32_t p = flat_.rank_begin[index(rank)]; p < position; ++p) {
      if (flat_.next_collective[index(p)] == position && !passed(flat_.message[index(p)])) return {p};
    }
    std::vector<std::int32_t> late;
    for (std::int32_t m = flat_.messages[index(id)].first; m != kNone; m = flat_.next_member[index(m)]) {
      const bool behind = !is_reached(m, stalled_.cursor[index(flat_.rank_of(m))]);
      if (behind || blocked_collective(m)) late.push_back(m);
    }
    return late;
  }

  /// Returns true if the collective at `position` must still wait for the previous collective of its rank,
  /// because that one has not started.
  bool blocked_collective(std::int32_t position) const {
    for (std::int32_t p = flat_.rank_begin[index(flat_.rank_of(position))]; p < position; ++p) {
      if (flat_.next_collective[index(p)] == position) return !passed(flat_.message[index(p)]);
    }
    return false;
  }

  const FlatProgram& flat_;
  const WalkState& stalled_;
  /// For each message that waits in a queue, the messages directly before it in this queue that could not
  /// start. The key is the rank of the queue and the number of the waiting message.
  std::multimap<std::pair<std::int32_t, std::int32_t>, std::int32_t> before_;
  /// The compute actions that free a place in a full queue, as positions. The key is the number of a message
  /// that waits for such a place.
  std::multimap<std::int32_t, std::int32_t> holders_;
};

/// A receiver of ListWalk's calls that ignores them. It is used if the caller only needs to know whether the
/// walk ends.
struct SilentSink {
  void compute(std::int32_t /*rank*/, std::int32_t /*position*/, std::span<const std::int32_t> /*messages*/) {
  }
  void pass(std::int32_t /*rank*/, std::int32_t /*position*/) {}
  void raise(std::int32_t /*message*/, const Cause& /*cause*/, bool /*last*/) {}
  void start(std::int32_t /*message*/, const Cause& /*last*/) {}
  void wait(std::int32_t /*rank*/, std::int32_t /*message*/) {}
  void launch(std::int32_t /*rank*/, std::int32_t /*position*/) {}
};

/// Returns the flat program of at most two iterations. Later iterations repeat the second one, so they show
/// no further faults.
FlatProgram flat_passes(const Program& lowered, const ChannelOptions& channels, const CostTable& costs,
                        std::vector<CrossedMessage> crossed) {
  return flatten(
      lowered, costs,
      {.channels = channels, .iterations = std::min(lowered.iterations, 2), .crossed = std::move(crossed)});
}

/// Returns the error text about crossed messages. It has one line for each of the first ones, such as "rank 0
/// sends 0SEND_F0 where rank 1 expects 1RECV_F1 (positions 1 and 0)".
std::string crossed_in_words(const std::vector<CrossedMessage>& crossed, ChannelModel model) {
  constexpr std::size_t kMostLines = 10;
  std::string text = fmt::format(
      "messages cross under {} channels: each of these SENDs meets the RECV of another message, and where "
      "messages have no tags the tensors are exchanged silently; give both ranks one order:",
      to_text(model));
  for (std::size_t i = 0; i < std::min(crossed.size(), kMostLines); ++i) {
    const CrossedMessage& one = crossed[i];
    text += fmt::format("\n  rank {} sends {} where rank {} expects {} (positions {} and {})", one.rank,
                        to_text(one.send), one.peer, to_text(one.receive), one.position, one.peer_position);
  }
  if (crossed.size() > kMostLines) text += fmt::format("\n  and {} more", crossed.size() - kMostLines);
  return text;
}

}  // namespace

Hang hang_of(const FlatProgram& flat, const WalkState& stalled, const ChannelOptions& channels) {
  const WaitGraph graph(flat, stalled, channels);
  return hang_of_cycle(
      flat, graph.stalled_positions(), [&](std::int32_t position) { return graph.waits_for(position); },
      channels);
}

std::optional<Hang> find_stall(const FlatProgram& flat, const ChannelOptions& channels) {
  SilentSink silent;
  const auto stalled = ListWalk<SilentSink>(flat, channels, silent).run();
  // A program that does not hang on its channels can still hang if kernels start in launch order.
  return stalled ? std::optional(hang_of(flat, *stalled, channels)) : find_launch_hang(flat, channels);
}

std::optional<Hang> find_hang(const Program& lowered, const ChannelOptions& channels,
                              const CostTable& costs) {
  auto stall = find_stall(flat_passes(lowered, channels, costs, {}), channels);
  // Crossed messages block each other in their queues, so the walk stalls unless they are eager.
  if (!stall && channels.eager_bytes == 0) return std::nullopt;
  std::vector<CrossedMessage> crossed = crossed_messages(lowered, channels.model);
  if (crossed.empty()) return stall;
  stall = find_stall(flat_passes(lowered, channels, costs, crossed), channels);
  Hang found{.channels = channels, .cycle = {}, .message = crossed_in_words(crossed, channels.model)};
  if (stall) {
    found.message += "\nwith these messages exchanged the program " + stall->message;
    found.cycle = std::move(stall->cycle);
  }
  found.crossed = std::move(crossed);
  return found;
}

std::optional<ChannelModel> weakest_safe_channel(const Program& lowered, ChannelOptions channels,
                                                 const CostTable& costs) {
  for (const ChannelModel model : kChannelModels) {
    channels.model = model;
    if (!find_hang(lowered, channels, costs)) return model;
  }
  return std::nullopt;
}

// Finds a shortest cycle of waits, because a short cycle explains a hang best. A breadth-first search
// starts from each position for which the stalled ranks wait, directly or indirectly. The first path back
// to its start is a shortest cycle through this position. This is an example under `rank` channels (A > B
// means that A waits for B):
//
//   1F0 > 1RECV_F0 > 0SEND_F0 > 0SEND_F1 > 1RECV_F1 > 1RECV_F0      rank 1 waits at 1F0, which is not part
//         |--------------------------------------|                 of the cycle
//
// The walks of this file and launch_order.cpp supply the waits. Tested by channel_check_test.cpp.

namespace {

using WaitPath = std::vector<std::int32_t>;

// The largest number of stalled actions from which the search for a shortest cycle starts.
constexpr std::size_t kEnoughStarts = 4096;

/// Returns the cycle that is found by always following the first wait of a position. Every waiting position
/// waits for another one. So the path must reach an earlier position again. Returns an empty path if a
/// position waits for nothing, because then there is no hang.
WaitPath any_cycle(std::int32_t start, const WaitsOf& waits_of) {
  WaitPath path;
  std::map<std::int32_t, std::ptrdiff_t> index_on_path;
  std::int32_t here = start;
  while (index_on_path.emplace(here, std::ssize(path)).second) {
    path.push_back(here);
    const WaitPath waits = waits_of(here);
    if (waits.empty()) return {};
    here = waits.front();
  }
  path.erase(path.begin(), path.begin() + index_on_path.at(here));
  return path;
}

/// Returns `found` and all positions for which these wait, directly or indirectly, up to kEnoughStarts. A
/// hang has many cycles, and a short cycle is usually close to the stalled positions.
WaitPath reachable(WaitPath found, const WaitsOf& waits_of) {
  std::set<std::int32_t> seen(found.begin(), found.end());
  for (std::size_t i = 0; i < found.size() && found.size() < kEnoughStarts; ++i) {
    for (const std::int32_t next : waits_of(found[i])) {
      if (seen.insert(next).second) found.push_back(next);
    }
  }
  return found;
}

WaitPath path_to(std::int32_t end, std::int32_t start,
                 const std::map<std::int32_t, std::int32_t>& came_from) {
  WaitPath path{end};
  while (path.back() != start) path.push_back(came_from.at(path.back()));
  std::ranges::reverse(path);
  return path;
}

/// Returns a shortest cycle of at most `longest` positions through `start`, or an empty path if there is
/// none. The breadth-first search stops when all further cycles are longer.
WaitPath cycle_through(std::int32_t start, std::size_t longest, const WaitsOf& waits_of) {
  std::map<std::int32_t, std::int32_t> came_from;
  WaitPath level{start};
  for (std::size_t length = 1; length <= longest && !level.empty(); ++length) {
    WaitPath next_level;
    for (const std::int32_t here : level) {
      for (const std::int32_t next : waits_of(here)) {
        if (next == start) return path_to(here, start, came_from);
        // Only the first path to a position is stored, because no other path is shorter.
        if (came_from.emplace(next, here).second) next_level.push_back(next);
      }
    }
    level = std::move(next_level);
  }
  return {};
}

/// Returns a shortest cycle among all positions that can be reached from the stalled ones. If several are
/// equally short, returns the first one. The length of the cycle from any_cycle() limits the searches.
/// Without a limit they would visit all waits of a large program.
WaitPath shortest_cycle(const WaitPath& stalled, const WaitsOf& waits_of) {
  const WaitPath some = any_cycle(stalled.front(), waits_of);
  WaitPath best;
  std::size_t longest = some.empty() ? kEnoughStarts : some.size();
  for (const std::int32_t start : reachable(stalled, waits_of)) {
    WaitPath cycle = cycle_through(start, longest, waits_of);
    if (cycle.empty()) continue;
    // From now on, only a shorter cycle is accepted.
    longest = cycle.size() - 1;
    best = std::move(cycle);
  }
  return best.empty() ? some : best;
}

std::string name(const FlatProgram& flat, std::int32_t position) {
  if (flat.ops[index(position)] == FlatOp::barrier) return "the barrier between iterations";
  return to_text(flat.actions[index(position)]);
}

std::string describe(const ChannelOptions& channels) {
  return fmt::format("{} channels{}{}{}", to_text(channels.model), blocking_suffix(channels.blocking),
                     channels.capacity > 0 ? fmt::format(", capacity {}", channels.capacity) : "",
                     channels.launch_order ? ", in launch order" : "");
}

}  // namespace

Hang hang_of_cycle(const FlatProgram& flat, const std::vector<std::int32_t>& stalled, const WaitsOf& waits_of,
                   const ChannelOptions& channels, const WordsOf& words_of) {
  const std::vector<std::int32_t> cycle = shortest_cycle(stalled, waits_of);
  Hang hang{.channels = channels, .cycle = {}, .message = {}};
  std::string waits;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const std::int32_t here = cycle[i];
    const std::int32_t next = cycle[(i + 1) % cycle.size()];
    const std::int32_t rank = flat.rank_of(here);
    const std::int32_t next_rank = flat.rank_of(next);
    WaitFor wait{.rank = rank,
                 .position = here - flat.rank_begin[index(rank)],
                 .action = flat.actions[index(here)],
                 .waits_for = fmt::format("{} on rank {}, position {}{}", name(flat, next), next_rank,
                                          next - flat.rank_begin[index(next_rank)],
                                          words_of ? words_of(here, next) : "")};
    waits += fmt::format("\n  rank {}, position {}: {} waits for {}", wait.rank, wait.position,
                         name(flat, here), wait.waits_for);
    hang.cycle.push_back(std::move(wait));
  }
  hang.message = fmt::format("hangs under {}; each of these waits for the next, the last for the first:{}",
                             describe(channels), waits);
  return hang;
}

}  // namespace penstock
