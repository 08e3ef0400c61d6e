// Orders the changes of a rank's holdings, from which every peak is computed. A holding has two changes: a
// charge when it begins and a release when it ends. At one instant, releases come before charges, so that a
// buffer that is passed on does not count twice. Program order decides between all other changes. Thus the
// result does not depend on the input's order.
//
// Holdings come in program order. Therefore the charges of one kind are nearly sorted, and so are the
// releases:
//
//   charges of kind 0 | releases of kind 0 | charges of kind 1 | ...     few long ascending runs
//
// Neighbouring runs are merged until one run remains. This takes O(n log runs), which is never more than a
// full sort (R. Sedgewick and K. Wayne, Algorithms, 4th edition, 2011, section 2.2: natural merge sort).
// Tests: metrics_test.cpp.

#include "report/timeline/holdings.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// A change, together with its sort key.
struct Keyed {
  Ns time_ns = 0;
  // the rank among changes at the same time; see place_of()
  std::uint64_t place = 0;
  std::uint32_t holding = 0;

  friend auto operator<=>(const Keyed&, const Keyed&) = default;
};

// The order at one position. 0: release of an amount that an earlier action charged. 1: charge. 2: release of
// an amount that the same action charged.
constexpr std::uint64_t kCharge = 1;

/// Returns the order of a change among all changes at the same time. The number consists of the phase (bit
/// 40), position + 1, and the order at the position (2 bits). Phase 0 has the releases of amounts that were
/// charged earlier. Phase 1 has all other changes by position. Each position first releases older amounts,
/// then charges its own, and then releases those.
std::uint64_t place_of(bool is_late_release, std::int32_t position, std::uint64_t order) {
  const std::uint64_t phase = is_late_release ? 0 : 1;
  return phase << 40U | static_cast<std::uint64_t>(std::int64_t{position} + 1) << 2U | order;
}

Keyed charge_of(const Holding& held, std::uint32_t number) {
  return {held.from_ns, place_of(false, held.charged_by, kCharge), number};
}

Keyed release_of(const Holding& held, std::uint32_t number) {
  const bool own = held.charged_by == held.released_by;
  return {held.until_ns, place_of(held.until_ns != held.from_ns, held.released_by, own ? 2 : 0), number};
}

/// Returns all changes grouped by kind. Each group has the charges of a kind and then its releases.
std::vector<Keyed> changes_by_kind(std::span<const Holding> holdings) {
  // For each kind: the index of its next charge and of its next release
  std::vector<std::size_t> next;
  const auto counter = [&](const Holding& held, std::size_t release) -> std::size_t& {
    const std::size_t lane = 2 * static_cast<std::size_t>(held.kind) + release;
    if (lane >= next.size()) next.resize(lane + 1, 0);
    return next[lane];
  };
  for (const Holding& held : holdings) {
    ++counter(held, 0);
    counter(held, 1) += held.until_ns == kHeldForEver ? 0 : 1;
  }
  std::size_t total = 0;
  // Each count becomes the first index of its group.
  for (std::size_t& count : next) total += std::exchange(count, total);
  std::vector<Keyed> keys(total);
  for (std::uint32_t number = 0; number < holdings.size(); ++number) {
    const Holding& held = holdings[number];
    keys[counter(held, 0)++] = charge_of(held, number);
    if (held.until_ns != kHeldForEver) keys[counter(held, 1)++] = release_of(held, number);
  }
  return keys;
}

/// Returns the first index of each ascending run, and the number of keys as the last element.
std::vector<std::size_t> runs_of_keys(const std::vector<Keyed>& keys) {
  std::vector<std::size_t> begins{0};
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (keys[i] < keys[i - 1]) begins.push_back(i);
  }
  begins.push_back(keys.size());
  return begins;
}

/// Merges neighbouring runs in pairs until one run remains. A last run without a partner is copied.
void sort_by_runs(std::vector<Keyed>& keys) {
  std::vector<std::size_t> begins = runs_of_keys(keys);
  std::vector<Keyed> merged(begins.size() > 2 ? keys.size() : 0);
  while (begins.size() > 2) {
    const auto place = [&](std::size_t run) {
      return keys.begin() + static_cast<std::ptrdiff_t>(begins[std::min(run, begins.size() - 1)]);
    };
    std::vector<std::size_t> joined;
    auto to = merged.begin();
    for (std::size_t run = 0; run + 1 < begins.size(); run += 2) {
      joined.push_back(begins[run]);
      to = std::merge(place(run), place(run + 1), place(run + 1), place(run + 2), to);
    }
    joined.push_back(keys.size());
    begins = std::move(joined);
    keys.swap(merged);
  }
}

}  // namespace

std::vector<HoldingChange> changes_in_order(std::span<const Holding> holdings) {
  std::vector<Keyed> keys = changes_by_kind(holdings);
  sort_by_runs(keys);
  std::vector<HoldingChange> changes;
  changes.reserve(keys.size());
  for (const Keyed& key : keys) {
    changes.push_back({.time_ns = key.time_ns,
                       .holding = static_cast<std::int32_t>(key.holding),
                       .charge = (key.place & 3U) == kCharge});
  }
  return changes;
}

std::int64_t peak_amount(std::span<const Holding> holdings) {
  std::vector<Keyed> keys = changes_by_kind(holdings);
  sort_by_runs(keys);
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const Keyed& key : keys) {
    const std::int64_t amount = holdings[key.holding].amount;
    held += (key.place & 3U) == kCharge ? amount : -amount;
    peak = std::max(peak, held);
  }
  return peak;
}

}  // namespace penstock
