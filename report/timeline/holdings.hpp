#pragma once
// Amounts that a rank holds over time (activations, buffers, weight versions) and the order in which they
// come and go: the one rule behind every peak that Penstock reports.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Held until the end of the program.
inline constexpr Ns kHeldForEver = std::numeric_limits<Ns>::max();
/// The position of what is there before the first action.
inline constexpr std::int32_t kBeforeFirst = -1;

/// Something charged by one action of a rank and released by another (or the same).
struct Holding {
  Ns from_ns = 0;
  Ns until_ns = kHeldForEver;
  std::int32_t charged_by = kBeforeFirst;   ///< position in the rank's program order
  std::int32_t released_by = kBeforeFirst;  ///< position; unused when held for ever
  std::int32_t kind = 0;                    ///< free for the caller: a category; >= 0 and small
  std::int64_t amount = 1;
};

/// One change: `holding` is charged or released.
struct HoldingChange {
  Ns time_ns = 0;
  std::int32_t holding = 0;  ///< index into the span that was given
  bool charge = true;
};

/// All charges and releases in the order that peaks count: by time; at one instant first releases of what
/// was charged earlier, then everything else in program order, so that something charged and
/// released at the same instant is never negative.
std::vector<HoldingChange> changes_in_order(std::span<const Holding> holdings);

/// The largest sum of amounts held at once.
std::int64_t peak_amount(std::span<const Holding> holdings);

}  // namespace penstock
