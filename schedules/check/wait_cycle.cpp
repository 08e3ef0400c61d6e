// Breadth-first from every position that the stalled ranks wait for, directly or not; the first way back to
// where it began is a shortest one.

#include "schedules/check/wait_cycle.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// A bound keeps this readable and fast.
std::vector<std::int32_t> reachable(std::vector<std::int32_t> found, const WaitsOf& waits_of) {
  constexpr std::size_t kEnough = 4096;
  for (std::size_t i = 0; i < found.size() && found.size() < kEnough; ++i) {
    for (const std::int32_t next : waits_of(found[i])) {
      if (std::ranges::find(found, next) == found.end()) found.push_back(next);
    }
  }
  return found;
}

std::vector<std::int32_t> path_to(std::int32_t end, std::int32_t start,
                                  const std::map<std::int32_t, std::int32_t>& came_from) {
  std::vector<std::int32_t> path{end};
  while (path.back() != start) path.push_back(came_from.at(path.back()));
  std::ranges::reverse(path);
  return path;
}

/// A shortest cycle through `start`, beginning there; empty where none leads back to it.
std::vector<std::int32_t> cycle_through(std::int32_t start, const WaitsOf& waits_of) {
  std::map<std::int32_t, std::int32_t> came_from;
  std::deque<std::int32_t> open{start};
  while (!open.empty()) {
    const std::int32_t here = open.front();
    open.pop_front();
    for (const std::int32_t next : waits_of(here)) {
      if (next == start) return path_to(here, start, came_from);
      // Only the first way to a position is kept, which is a shortest one.
      if (came_from.emplace(next, here).second) open.push_back(next);
    }
  }
  return {};
}

std::vector<std::int32_t> shortest_cycle(const std::vector<std::int32_t>& stalled, const WaitsOf& waits_of) {
  std::vector<std::int32_t> best;
  for (const std::int32_t start : reachable(stalled, waits_of)) {
    std::vector<std::int32_t> cycle = cycle_through(start, waits_of);
    if (!cycle.empty() && (best.empty() || cycle.size() < best.size())) best = std::move(cycle);
  }
  return best;
}

std::string name(const FlatProgram& flat, std::int32_t position) {
  if (flat.ops[index(position)] == FlatOp::barrier) return "the barrier between iterations";
  return to_text(flat.actions[index(position)]);
}

std::string describe(const ChannelOptions& channels) {
  return fmt::format("{} channels{}{}{}", to_text(channels.model), channels.blocking ? ", blocking" : "",
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
