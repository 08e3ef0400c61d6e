#pragma once
// The amounts that a rank holds over time (activations, buffers, weight versions), and the order in which
// they change. Every peak that Penstock reports follows this order.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The end of a holding that lasts until the program ends.
inline constexpr Ns kHeldForEver = std::numeric_limits<Ns>::max();
/// The charge position of holdings that exist before the rank's first action.
inline constexpr std::int32_t kBeforeFirst = -1;

/// An amount of memory that one action charges (allocates) on its rank. The same or another action releases
/// it.
struct Holding {
  Ns from_ns = 0;
  Ns until_ns = kHeldForEver;
  /// The position of the charging action in the rank's program order.
  std::int32_t charged_by = kBeforeFirst;
  /// The position of the releasing action. It is not used if the holding is never released.
  std::int32_t released_by = kBeforeFirst;
  /// A number >= 0 that groups holdings, such as a memory category. The caller chooses small numbers.
  std::int32_t kind = 0;
  std::int64_t amount = 1;
};

/// The charge or the release of one holding.
struct HoldingChange {
  Ns time_ns = 0;
  /// The index of the holding in the caller's list.
  std::int32_t holding = 0;
  bool charge = true;
};

/// Returns all charges and releases, ordered by time. At one instant, releases of earlier charges come first.
/// All other changes follow in program order. A holding that begins and ends at the same instant is charged
/// before it is released.
std::vector<HoldingChange> changes_in_order(std::span<const Holding> holdings);

/// Returns the peak: the largest sum of amounts that exist at the same time.
std::int64_t peak_amount(std::span<const Holding> holdings);

}  // namespace penstock
