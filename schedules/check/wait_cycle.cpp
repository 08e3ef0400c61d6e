// Breadth-first from every position that the stalled ranks wait for, directly or not; the first way back to
// where it began is a shortest one through it. Two activations that cross between ranks 0 and 1 under `rank`
// channels (A > B: A waits for B):
//
//   1F0 > 1RECV_F0 > 0SEND_F0 > 0SEND_F1 > 1RECV_F1 > 1RECV_F0      rank 1 stands at 1F0; the cycle begins
//         |--------------------------------------|                 behind it

#include "schedules/check/wait_cycle.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
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

using WaitPath = std::vector<std::int32_t>;

constexpr std::size_t kEnoughStarts = 4096;  // positions from which cycles are looked for

/// Whoever waits waits for somebody, so that going on to the first that each waits for comes round at last:
/// the cycle behind what leads to it. Empty where somebody waits for nobody, which is no hang.
WaitPath any_cycle(std::int32_t start, const WaitsOf& waits_of) {
  WaitPath way;
  std::map<std::int32_t, std::ptrdiff_t> place_on_way;
  std::int32_t here = start;
  while (place_on_way.emplace(here, std::ssize(way)).second) {
    way.push_back(here);
    const WaitPath waits = waits_of(here);
    if (waits.empty()) return {};
    here = waits.front();
  }
  way.erase(way.begin(), way.begin() + place_on_way.at(here));
  return way;
}

/// `found`, and what these wait for, directly or not. Some thousand are enough: a hang has many cycles, and
/// where a short one is there, it is seldom far from who stands still.
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

/// A shortest cycle through `start` of at most `longest` positions, beginning there; empty where no such one
/// leads back to it. Level by level, so that a search ends where its cycles would be longer.
WaitPath cycle_through(std::int32_t start, std::size_t longest, const WaitsOf& waits_of) {
  std::map<std::int32_t, std::int32_t> came_from;
  WaitPath level{start};
  for (std::size_t length = 1; length <= longest && !level.empty(); ++length) {
    WaitPath next_level;
    for (const std::int32_t here : level) {
      for (const std::int32_t next : waits_of(here)) {
        if (next == start) return path_to(here, start, came_from);
        // Only the first way to a position is kept, which is a shortest one.
        if (came_from.emplace(next, here).second) next_level.push_back(next);
      }
    }
    level = std::move(next_level);
  }
  return {};
}

/// Of the cycles through what is reachable a shortest one, the first that is met. That of any_cycle() bounds
/// the searches: without a bound each goes through all that a large program waits for.
WaitPath shortest_cycle(const WaitPath& stalled, const WaitsOf& waits_of) {
  const WaitPath some = any_cycle(stalled.front(), waits_of);
  WaitPath best;
  std::size_t longest = some.empty() ? kEnoughStarts : some.size();
  for (const std::int32_t start : reachable(stalled, waits_of)) {
    WaitPath cycle = cycle_through(start, longest, waits_of);
    if (cycle.empty()) continue;
    // Only a shorter one is better than the first.
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
