// Walks the program, and asks the walk for no times. Where it stalls, every position that was not passed
// waits for others: a compute action for its messages, a position behind the cursor for the cursor, a reached
// transfer for the one before it in its queue or for its other end. A cycle of these is the hang.

#include "schedules/check/channel_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/stalled_walk.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

class WaitGraph {
 public:
  WaitGraph(const FlatProgram& flat, const WalkState& stalled) : flat_(flat), stalled_(stalled) {
    for (std::size_t id = 0; id < flat.messages.size(); ++id) {
      const FlatMessage& message = flat.messages[id];
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
      case FlatOp::leaf:
      case FlatOp::reshard:
        return {};
    }
    return {};
  }

  std::vector<std::int32_t> shortest_cycle() const {
    std::vector<std::int32_t> best;
    for (const std::int32_t start : reachable()) {
      std::vector<std::int32_t> cycle = cycle_through(start);
      if (!cycle.empty() && (best.empty() || cycle.size() < best.size())) best = std::move(cycle);
    }
    return best;
  }

 private:
  bool passed(std::int32_t id) const { return stalled_.pending[index(id)] == 0; }

  std::vector<std::int32_t> missing_messages(std::int32_t position) const {
    std::vector<std::int32_t> missing;
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      if (!passed(flat_.message[index(w)])) missing.push_back(w);
    }
    return missing;
  }

  std::int32_t end_on(std::int32_t rank, std::int32_t id) const {
    const FlatMessage& message = flat_.messages[index(id)];
    return message.from_rank == rank ? message.first : message.recv;
  }

  /// What keeps a reached transfer from heading its queue on this rank.
  std::vector<std::int32_t> own_end_waits(std::int32_t rank, std::int32_t position) const {
    std::vector<std::int32_t> waits;
    const std::int32_t id = flat_.message[index(position)];
    if (position > stalled_.cursor[index(rank)]) return {stalled_.cursor[index(rank)]};
    const auto [first, last] = before_.equal_range({rank, id});
    for (auto entry = first; entry != last; ++entry) waits.push_back(end_on(rank, entry->second));
    if (flat_.ops[index(position)] != FlatOp::recv) return waits;
    const auto [holder, last_holder] = holders_.equal_range(id);
    for (auto entry = holder; entry != last_holder; ++entry) {
      if (entry->second >= stalled_.cursor[index(rank)]) waits.push_back(entry->second);
    }
    return waits;
  }

  std::vector<std::int32_t> transfer_waits(std::int32_t rank, std::int32_t position) const {
    std::vector<std::int32_t> waits = own_end_waits(rank, position);
    if (!waits.empty()) return waits;
    const FlatMessage& message = flat_.messages[index(flat_.message[index(position)])];
    const std::int32_t other = position == message.recv ? message.first : message.recv;
    return {other};
  }

  std::vector<std::int32_t> collective_waits(std::int32_t rank, std::int32_t position) const {
    const std::int32_t id = flat_.message[index(position)];
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

  bool blocked_collective(std::int32_t position) const {
    for (std::int32_t p = flat_.rank_begin[index(flat_.rank_of(position))]; p < position; ++p) {
      if (flat_.next_collective[index(p)] == position) return !passed(flat_.message[index(p)]);
    }
    return false;
  }

  /// Every position that the stalled ranks wait for, directly or not; a bound keeps this readable and fast.
  std::vector<std::int32_t> reachable() const {
    constexpr std::size_t kEnough = 4096;
    std::vector<std::int32_t> found;
    for (std::size_t rank = 0; rank < stalled_.cursor.size(); ++rank) {
      if (stalled_.cursor[rank] < flat_.rank_begin[rank + 1]) found.push_back(stalled_.cursor[rank]);
    }
    for (std::size_t i = 0; i < found.size() && found.size() < kEnough; ++i) {
      for (const std::int32_t next : waits_for(found[i])) {
        if (std::ranges::find(found, next) == found.end()) found.push_back(next);
      }
    }
    return found;
  }

  std::vector<std::int32_t> cycle_through(std::int32_t start) const {
    std::map<std::int32_t, std::int32_t> came_from;
    std::deque<std::int32_t> open{start};
    while (!open.empty()) {
      const std::int32_t here = open.front();
      open.pop_front();
      for (const std::int32_t next : waits_for(here)) {
        if (next == start) return path_to(here, start, came_from);
        if (came_from.emplace(next, here).second) open.push_back(next);
      }
    }
    return {};
  }

  static std::vector<std::int32_t> path_to(std::int32_t end, std::int32_t start,
                                           const std::map<std::int32_t, std::int32_t>& came_from) {
    std::vector<std::int32_t> path{end};
    while (path.back() != start) path.push_back(came_from.at(path.back()));
    std::ranges::reverse(path);
    return path;
  }

  const FlatProgram& flat_;
  const WalkState& stalled_;
  /// Rank and message -> unfinished ones before it in its queue on that rank.
  std::multimap<std::pair<std::int32_t, std::int32_t>, std::int32_t> before_;
  std::multimap<std::int32_t, std::int32_t> holders_;  // message -> consumers that must free capacity first
};

std::string name(const FlatProgram& flat, std::int32_t position) {
  if (flat.ops[index(position)] == FlatOp::barrier) return "the barrier between iterations";
  return to_text(flat.actions[index(position)]);
}

/// The sink of a walk of which nothing is asked but whether it ends.
struct Nobody {
  void compute(std::int32_t /*rank*/, std::int32_t /*position*/, std::span<const std::int32_t> /*messages*/) {
  }
  void pass(std::int32_t /*rank*/, std::int32_t /*position*/) {}
  void raise(std::int32_t /*message*/, const Cause& /*cause*/, bool /*last*/) {}
  void start(std::int32_t /*message*/) {}
  void wait(std::int32_t /*rank*/, std::int32_t /*message*/) {}
};

std::string describe(const ChannelOptions& channels) {
  return fmt::format("{} channels{}{}", to_text(channels.model), channels.blocking ? ", blocking" : "",
                     channels.capacity > 0 ? fmt::format(", capacity {}", channels.capacity) : "");
}

}  // namespace

Hang hang_of(const FlatProgram& flat, const WalkState& stalled, const ChannelOptions& channels) {
  const std::vector<std::int32_t> cycle = WaitGraph(flat, stalled).shortest_cycle();
  Hang hang{.channels = channels, .cycle = {}, .message = {}};
  hang.message = fmt::format("hangs under {}; each of these waits for the next, the last for the first:",
                             describe(channels));
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const std::int32_t here = cycle[i];
    const std::int32_t next = cycle[(i + 1) % cycle.size()];
    const std::int32_t rank = flat.rank_of(here);
    const std::int32_t next_rank = flat.rank_of(next);
    WaitFor wait{.rank = rank,
                 .position = here - flat.rank_begin[index(rank)],
                 .action = flat.actions[index(here)],
                 .waits_for = fmt::format("{} on rank {}, position {}", name(flat, next), next_rank,
                                          next - flat.rank_begin[index(next_rank)])};
    hang.message += fmt::format("\n  rank {}, position {}: {} waits for {}", wait.rank, wait.position,
                                name(flat, here), wait.waits_for);
    hang.cycle.push_back(std::move(wait));
  }
  return hang;
}

std::optional<Hang> find_hang(const Program& lowered, const ChannelOptions& channels,
                              const CostTable& costs) {
  // Two passes show whatever can go wrong between iterations; more repeat the second one.
  const std::int32_t passes = std::min(lowered.iterations, 2);
  const FlatProgram flat = flatten(lowered, costs, {.channels = channels, .iterations = passes});
  Nobody nobody;
  const auto stalled = ListWalk<Nobody>(flat, channels, nobody).run();
  return stalled ? std::optional(hang_of(flat, *stalled, channels)) : std::nullopt;
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
