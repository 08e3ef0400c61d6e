#pragma once
// Does the same as schedules/search, but slowly and simply. The times of every list are computed from the
// beginning, and every variant of following an order is run to its end.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/order_follower.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

using Lists = std::vector<std::vector<Action>>;

/// The ends of the actions of lists, by rank and position, and the length of the lists.
struct PlainTimes {
  std::vector<std::vector<Ns>> ends;
  /// True for an F, B or I whose input arrives before the action starts
  std::vector<std::vector<bool>> waits_for_rank;
  Ns longest_span_ns = 0;
  Ns sum_of_ends_ns = 0;

  bool is_shorter_than(const PlainTimes& other) const;
};

/// Returns the times. Returns nothing if ranks wait for each other.
std::optional<PlainTimes> plain_times(const Lists& lists, const OrderCosts& costs);
/// Returns true if all ranks stay within their memory limits.
bool plainly_fits(const Lists& lists, const OrderCosts& costs);
/// Returns the lists that squeeze() must return (timed_lists.hpp).
Lists plain_squeeze(Lists lists, const OrderCosts& costs);
/// Returns the lists that result if the order is followed with these options. Returns nothing if ranks wait
/// for each other.
std::optional<Lists> plain_follow(const OrderCosts& costs, const PreferredOrder& order,
                                  const FollowOptions& way);

}  // namespace penstock
