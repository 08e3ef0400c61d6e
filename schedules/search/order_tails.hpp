#pragma once
// How long an order goes on after each of its actions, once nothing in it changes places any more: the
// longest span is then known before the order has been run to its end. Private to schedules/.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/order_steps.hpp"

namespace penstock {

class OrderTails {
 public:
  /// Of an action from which, in this order, ranks would wait for each other.
  static constexpr Ns kEndless = std::numeric_limits<Ns>::max();

  /// `first_starts` are those of the ranks. Requires whole backwards.
  OrderTails(const OrderSteps& order, std::vector<Ns> first_starts);

  const std::vector<Ns>& first_starts() const { return first_starts_; }
  /// What the action adds to its start: if it starts at t, the longest span of a rank whose last end it
  /// brings about is t + this. By place (order_steps.hpp).
  Ns after(std::int32_t place) const { return tails_[index(place)]; }

 private:
  std::vector<Ns> first_starts_;
  std::vector<Ns> tails_;
};

}  // namespace penstock
