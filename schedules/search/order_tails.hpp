#pragma once
// How long an order continues after each of its actions when nothing changes its order any more. With it the
// longest span is known before the order has been run to its end. Tails are computed from the ends of the
// lists back:
//
//   tail = duration + max(tail of the next one on the rank, delay + tail of what uses the output)
//
// After the last action of a rank comes minus the rank's first start. Only schedules/ includes this header.

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
  /// The tail of an action after which ranks would wait for each other forever.
  static constexpr Ns kEndless = std::numeric_limits<Ns>::max();

  /// Computes the tails for these first starts of the ranks. Requires whole backwards.
  OrderTails(const OrderSteps& order, std::vector<Ns> first_starts);

  const std::vector<Ns>& first_starts() const { return first_starts_; }
  /// Returns the tail of the action at a place (order_steps.hpp). If the action starts at t, the longest span
  /// among ranks whose last end depends on it is t plus this.
  Ns after(std::int32_t place) const { return tails_[index(place)]; }

 private:
  std::vector<Ns> first_starts_;
  std::vector<Ns> tails_;
};

}  // namespace penstock
