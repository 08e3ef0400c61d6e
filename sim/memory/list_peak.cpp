// A rank that runs one action after another charges at an action's start and releases at its end. The end
// comes before the next start, or at the same instant, where releases come first. So the peak is at the start
// of some action, whatever the times.

#include "sim/memory/list_peak.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/streamable.hpp"
#include "sim/memory/list_holdings.hpp"

namespace penstock {

std::optional<std::vector<Bytes>> list_peaks(const Program& program, const CostTable& costs) {
  // If edges carry bytes, there are buffers, and the times of other ranks decide when they are filled and
  // freed.
  if (!follows_from_lists(program, costs) || std::ranges::any_of(costs.edges, has_bytes)) return std::nullopt;
  ListHoldings holdings(costs);
  std::vector<Bytes> peaks = held_at_start(program, costs);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    Bytes held = peaks[rank];
    for (const Action& action : program.ranks[rank]) {
      const std::optional<ActionHolding> holding = holdings.next(action);
      if (!holding) return std::nullopt;
      held += holding->charged;
      peaks[rank] = std::max(peaks[rank], held + holding->transient);
      held -= holding->released;
    }
  }
  return peaks;
}

}  // namespace penstock
