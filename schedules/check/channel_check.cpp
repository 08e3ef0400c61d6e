// Walks the program, and asks the walk for no times. Where it stalls, every position that was not passed
// waits for others: a compute action for its messages, a position behind the cursor for the cursor, a reached
// transfer for the one before it in its queue or for its other end. A cycle of these is the hang.
//
// The walk joins a SEND and a RECV by name, so that messages that cross stall it unless they are eager. Such
// a program is walked again as a transport without tags runs it, each RECV joined to the SEND that it meets.

#include "schedules/check/channel_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/crossed_messages.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_order.hpp"
#include "schedules/check/stalled_walk.hpp"
#include "schedules/check/wait_cycle.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// Who waits for whom where a walk has stalled; positions are the nodes. What lies behind a cursor waits for
/// it.
///
///   rank 0   0F0 0SEND_F0 0RECV_B0 [0B0] 0F1 0SEND_F1          [ ] the cursor
///   rank 1   1RECV_F0 1F0 1RECV_F1 [1F1] 1B0 1SEND_B0
///
///   0B0 > 0RECV_B0 > 1SEND_B0 > 1F1 > 1RECV_F1 > 0SEND_F1 > 0B0
class WaitGraph {
 public:
  WaitGraph(const FlatProgram& flat, const WalkState& stalled) : flat_(flat), stalled_(stalled) {
    for (std::size_t id = 0; id < flat.messages.size(); ++id) {
      const FlatMessage& message = flat.messages[id];
      // A message that could start holds nobody up; only the others can be what a message waits for.
      if (stalled.pending[id] == 0) continue;
      const auto before = static_cast<std::int32_t>(id);
      if (message.next_at_sender != kNone) {
        before_.emplace(std::pair(message.from_rank, message.next_at_sender), before);
      }
      if (message.next_at_receiver != kNone) {
        before_.emplace(std::pair(message.to_rank, message.next_at_receiver), before);
      }
    }
    for (std::int32_t p = 0; p < static_cast<std::int32_t>(flat.released_by_consumer.size()); ++p) {
      std::int32_t id = flat.released_by_consumer[index(p)];
      for (; id != kNone; id = flat.messages[index(id)].next_of_capacity) holders_.emplace(id, p);
    }
  }

  /// The positions that `position` waits for.
  std::vector<std::int32_t> waits_for(std::int32_t position) const {
    const std::int32_t rank = flat_.rank_of(position);
    const std::int32_t cursor = stalled_.cursor[index(rank)];
    // Program order has not come to it: whatever it asks for, the cursor stands before it.
    if (position > cursor) return {cursor};
    switch (flat_.ops[index(position)]) {
      case FlatOp::compute:
        return missing_messages(position);
      case FlatOp::send:
      case FlatOp::recv:
        return transfer_waits(rank, position);
      case FlatOp::collective:
      case FlatOp::barrier:
        return collective_waits(rank, position);
      // Both are passed as soon as they are reached, so that no cursor ever stands at one.
      case FlatOp::leaf:
      case FlatOp::reshard:
        return {};
    }
    return {};
  }

  std::vector<std::int32_t> stalled_positions() const {
    std::vector<std::int32_t> found;
    for (std::size_t rank = 0; rank < stalled_.cursor.size(); ++rank) {
      if (stalled_.cursor[rank] < flat_.rank_begin[rank + 1]) found.push_back(stalled_.cursor[rank]);
    }
    return found;
  }

 private:
  /// The message, collective or barrier could start, which is all that anybody waits for here.
  bool passed(std::int32_t id) const { return stalled_.pending[index(id)] == 0; }

  /// Of a group of compute actions: the RECVs and collectives before it that have not started.
  std::vector<std::int32_t> missing_messages(std::int32_t position) const {
    std::vector<std::int32_t> missing;
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      if (!passed(flat_.message[index(w)])) missing.push_back(w);
    }
    return missing;
  }

  /// The SEND or RECV of a message that is on the rank.
  std::int32_t end_on(std::int32_t rank, std::int32_t id) const {
    const FlatMessage& message = flat_.messages[index(id)];
    return message.from_rank == rank ? message.first : message.recv;
  }

  /// What keeps a reached transfer from heading its queue on this rank.
  std::vector<std::int32_t> own_end_waits(std::int32_t rank, std::int32_t position) const {
    std::vector<std::int32_t> waits;
    const std::int32_t id = flat_.message[index(position)];
    // There may be several: eager messages have no turn of their own, and what comes next waits for each.
    const auto [first, last] = before_.equal_range({rank, id});
    for (auto entry = first; entry != last; ++entry) waits.push_back(end_on(rank, entry->second));
    if (flat_.ops[index(position)] != FlatOp::recv) return waits;
    const auto [holder, last_holder] = holders_.equal_range(id);
    for (auto entry = holder; entry != last_holder; ++entry) {
      // From the cursor on nothing has run: such a consumer still holds the place.
      if (entry->second >= stalled_.cursor[index(rank)]) waits.push_back(entry->second);
    }
    return waits;
  }

  /// What is missing at its own end comes first: only when nothing is, the other end can be what is waited
  /// for.
  std::vector<std::int32_t> transfer_waits(std::int32_t rank, std::int32_t position) const {
    std::vector<std::int32_t> waits = own_end_waits(rank, position);
    if (!waits.empty()) return waits;
    const FlatMessage& message = flat_.messages[index(flat_.message[index(position)])];
    const std::int32_t other = position == message.recv ? message.first : message.recv;
    return {other};
  }

  /// The collective before it on its rank; failing that, the members that have not come to it or that wait
  /// for one before it in their turn.
  std::vector<std::int32_t> collective_waits(std::int32_t rank, std::int32_t position) const {
    const std::int32_t id = flat_.message[index(position)];
    // A rank's collectives start one after another: the one before this may be what keeps it. Looking for
    // it takes long in a long list, but is done for a few positions of a program that hangs.
    for (std::int32_t p = flat_.rank_begin[index(rank)]; p < position; ++p) {
      if (flat_.next_collective[index(p)] == position && !passed(flat_.message[index(p)])) return {p};
    }
    std::vector<std::int32_t> late;
    for (std::int32_t m = flat_.messages[index(id)].first; m != kNone; m = flat_.next_member[index(m)]) {
      const bool behind = m > stalled_.cursor[index(flat_.rank_of(m))];
      if (behind || blocked_collective(m)) late.push_back(m);
    }
    return late;
  }

  /// Whether a member that has come to its collective still waits for the one before it on its rank.
  bool blocked_collective(std::int32_t position) const {
    for (std::int32_t p = flat_.rank_begin[index(flat_.rank_of(position))]; p < position; ++p) {
      if (flat_.next_collective[index(p)] == position) return !passed(flat_.message[index(p)]);
    }
    return false;
  }

  const FlatProgram& flat_;
  const WalkState& stalled_;
  /// Rank and message -> unfinished ones before it in its queue on that rank.
  std::multimap<std::pair<std::int32_t, std::int32_t>, std::int32_t> before_;
  std::multimap<std::int32_t, std::int32_t> holders_;  // message -> consumers that must free capacity first
};

/// The sink of a walk of which nothing is asked but whether it ends.
struct Nobody {
  void compute(std::int32_t /*rank*/, std::int32_t /*position*/, std::span<const std::int32_t> /*messages*/) {
  }
  void pass(std::int32_t /*rank*/, std::int32_t /*position*/) {}
  void raise(std::int32_t /*message*/, const Cause& /*cause*/, bool /*last*/) {}
  void start(std::int32_t /*message*/, const Cause& /*last*/) {}
  void wait(std::int32_t /*rank*/, std::int32_t /*message*/) {}
  void launch(std::int32_t /*rank*/, std::int32_t /*position*/) {}
};

/// Lays out as many passes as show whatever can go wrong: more than two repeat the second one.
FlatProgram flat_passes(const Program& lowered, const ChannelOptions& channels, const CostTable& costs,
                        std::vector<CrossedMessage> crossed) {
  return flatten(
      lowered, costs,
      {.channels = channels, .iterations = std::min(lowered.iterations, 2), .crossed = std::move(crossed)});
}

/// "rank 0 sends 0SEND_F0 where rank 1 expects 1RECV_F1 (positions 1 and 0)", a line for each of the first
/// few.
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
  const WaitGraph graph(flat, stalled);
  return hang_of_cycle(
      flat, graph.stalled_positions(), [&](std::int32_t position) { return graph.waits_for(position); },
      channels);
}

std::optional<Hang> find_stall(const FlatProgram& flat, const ChannelOptions& channels) {
  Nobody nobody;
  const auto stalled = ListWalk<Nobody>(flat, channels, nobody).run();
  // What ends on the channels may still hang where kernels start in the order of their launches.
  return stalled ? std::optional(hang_of(flat, *stalled, channels)) : find_launch_hang(flat, channels);
}

std::optional<Hang> find_hang(const Program& lowered, const ChannelOptions& channels,
                              const CostTable& costs) {
  auto stall = find_stall(flat_passes(lowered, channels, costs, {}), channels);
  // Messages that cross keep each other from the heads of their FIFOs, unless they are eager.
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

}  // namespace penstock
