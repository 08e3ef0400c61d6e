// Finds a shortest cycle of waits, because a short cycle explains a hang best. A breadth-first search
// starts from each position for which the stalled ranks wait, directly or indirectly. The first path back
// to its start is a shortest cycle through this position. This is an example under `rank` channels (A > B
// means that A waits for B):
//
//   1F0 > 1RECV_F0 > 0SEND_F0 > 0SEND_F1 > 1RECV_F1 > 1RECV_F0      rank 1 waits at 1F0, which is not part
//         |--------------------------------------|                 of the cycle
//
// channel_check.cpp and launch_order.cpp supply the waits. Tested by channel_check_test.cpp.
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

constexpr std::size_t kEnoughStarts = 4096;  // the largest number of positions from which the search starts

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
