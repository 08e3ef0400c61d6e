
#include "schedules/search/order_tails.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/order_steps.hpp"

namespace penstock {

OrderTails::OrderTails(const OrderSteps& order, std::vector<Ns> first_starts)
    : first_starts_(std::move(first_starts)), tails_(order.place_count(), kEndless) {
  std::vector<std::size_t> left;  // by rank: the number of steps without a tail
  std::vector<Ns> behind;         // by rank: the tail of the step that was computed last
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    left.push_back(order.ranks[rank].size());
    behind.push_back(-first_starts_[rank]);
  }
  // Each rank goes back as long as the tails of the actions that use its outputs are known. When no rank can
  // continue, the remaining steps wait for each other, and their tails stay kEndless.
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      for (; left[rank] > 0; --left[rank]) {
        const Step& step = order.ranks[rank][left[rank] - 1];
        const Track& track = order.track_of(step);
        if (track.next != Track::kNone) {
          const Ns taken = after(order.taker(step));
          if (taken == kEndless) break;
          behind[rank] = std::max(behind[rank], track.delay + taken);
        }
        behind[rank] += track.duration;
        tails_[index(step.place)] = behind[rank];
        moved = true;
      }
    }
  }
}

}  // namespace penstock
