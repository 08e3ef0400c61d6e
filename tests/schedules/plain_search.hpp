#pragma once
// What schedules/search does, done slowly and plainly: every list is timed from its beginning, every way to
// follow an order is run to its end.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/follow_order.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

using Lists = std::vector<std::vector<Action>>;

/// When the actions of lists end, by rank and position, and how long the lists take.
struct PlainTimes {
  std::vector<std::vector<Ns>> ends;
  std::vector<std::vector<bool>> waits_for_rank;  ///< an F, B or I whose input is there before it starts
  Ns longest_span_ns = 0;
  Ns sum_of_ends_ns = 0;

  bool is_shorter_than(const PlainTimes& other) const;
};

/// Nothing when ranks wait for each other.
std::optional<PlainTimes> plain_times(const Lists& lists, const OrderCosts& costs);
/// Whether all ranks stay within their memory limits.
bool plainly_fits(const Lists& lists, const OrderCosts& costs);
/// What squeeze() promises (retimed_lists.hpp).
Lists plain_squeeze(Lists lists, const OrderCosts& costs);
/// The lists of an order that is followed in one way; nothing when it jams.
std::optional<Lists> plain_follow(const OrderCosts& costs, const PreferredOrder& order,
                                  const FollowOptions& way);

}  // namespace penstock
