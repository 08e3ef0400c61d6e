// A rank that does one thing after another charges at the start of an action and releases at its end, which
// is before the next one's start or at that instant, and there releases come first. So the peak is at the
// start of some action.

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
  // With bytes on edges there are buffers, which other ranks' times fill and empty.
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
