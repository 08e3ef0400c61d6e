#pragma once
// Computes the time from the start of each action to the end of the order, for an order that no longer
// changes. Then the longest span is known before the run ends. Tails are computed backwards from the ends of
// the lists:
//
//   tail = duration + max(tail of the rank's next action, delay + tail of the action that uses the output)
//
// After the last action of a rank, the term is minus the rank's first start. Only schedules/ includes this
// header.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/order_steps.hpp"

namespace penstock {

/// The tails of all actions of an order.
class OrderTails {
 public:
  /// The tail of an action if ranks wait for each other forever after it.
  static constexpr Ns kEndless = std::numeric_limits<Ns>::max();

  /// Computes the tails if the ranks start at `first_starts`. Requires whole backwards.
  OrderTails(const OrderSteps& order, std::vector<Ns> first_starts);

  const std::vector<Ns>& first_starts() const { return first_starts_; }
  /// Returns the tail of the action at a place (order_steps.hpp). If this action starts at t, t plus the tail
  /// is the longest span of the ranks that depend on it.
  Ns after(std::int32_t place) const { return tails_[index(place)]; }

 private:
  std::vector<Ns> first_starts_;
  std::vector<Ns> tails_;
};

}  // namespace penstock
