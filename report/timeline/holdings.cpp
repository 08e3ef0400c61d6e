// A holding is a pair of signed changes: a charge when it begins, a release when it ends. All changes of a
// rank are sorted by time, and at one instant releases come before charges, so that handing a buffer over is
// no peak; then program order decides, which makes the answer independent of the order in which they were
// found.

#include "report/timeline/holdings.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// A change with its sort key.
struct Keyed {
  Ns time_ns = 0;
  std::int32_t phase = 0;     // 0: release of something charged at an earlier instant
  std::int32_t position = 0;  // of the action, inside phase 1
  std::int32_t order = 0;     // at one position: release of earlier positions, charge, release of its own
  std::int32_t holding = 0;

  friend auto operator<=>(const Keyed&, const Keyed&) = default;
};

}  // namespace

std::vector<HoldingChange> changes_in_order(std::span<const Holding> holdings) {
  std::vector<Keyed> keys;
  keys.reserve(2 * holdings.size());
  for (std::size_t i = 0; i < holdings.size(); ++i) {
    const Holding& held = holdings[i];
    const auto number = static_cast<std::int32_t>(i);
    keys.push_back({held.from_ns, 1, held.charged_by, 1, number});
    if (held.until_ns == kHeldForEver) continue;
    const bool at_once = held.until_ns == held.from_ns;
    const bool own = held.charged_by == held.released_by;
    keys.push_back({held.until_ns, at_once ? 1 : 0, held.released_by, own ? 2 : 0, number});
  }
  std::ranges::sort(keys);
  std::vector<HoldingChange> changes;
  changes.reserve(keys.size());
  for (const Keyed& key : keys) {
    changes.push_back({.time_ns = key.time_ns, .holding = key.holding, .charge = key.order == 1});
  }
  return changes;
}

std::int64_t peak_amount(std::span<const Holding> holdings) {
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const HoldingChange& change : changes_in_order(holdings)) {
    const std::int64_t amount = holdings[static_cast<std::size_t>(change.holding)].amount;
    held += change.charge ? amount : -amount;
    peak = std::max(peak, held);
  }
  return peak;
}

}  // namespace penstock
