#pragma once
// Amounts that a rank holds over time (activations, buffers, weight versions) and the order of their changes.
// Every peak that Penstock reports follows this order.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The end of a holding that lasts until the end of the program.
inline constexpr Ns kHeldForEver = std::numeric_limits<Ns>::max();
/// The position of what a rank holds before its first action.
inline constexpr std::int32_t kBeforeFirst = -1;

/// An amount that one action of a rank charges and the same or another action releases.
struct Holding {
  Ns from_ns = 0;
  Ns until_ns = kHeldForEver;
  /// The position in the rank's program order.
  std::int32_t charged_by = kBeforeFirst;
  /// The position; unused if the holding lasts for ever.
  std::int32_t released_by = kBeforeFirst;
  /// A small number >= 0 that the caller chooses, such as a category.
  std::int32_t kind = 0;
  std::int64_t amount = 1;
};

/// A change: `holding` is charged or released.
struct HoldingChange {
  Ns time_ns = 0;
  /// The index into the span that was given.
  std::int32_t holding = 0;
  bool charge = true;
};

/// Returns all charges and releases in the order in which peaks count them. They are ordered by time. At one
/// instant, releases of what was charged earlier come first; then all other changes follow in program order.
/// A holding that begins and ends at the same instant is charged before it is released.
std::vector<HoldingChange> changes_in_order(std::span<const Holding> holdings);

/// Returns the largest sum of amounts that are held at once.
std::int64_t peak_amount(std::span<const Holding> holdings);

}  // namespace penstock
