#pragma once
// When each rank looks for work next: a tree over the ranks, every node of which holds the earlier of the two
// below, the lower rank on a tie. Private to schedules/.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

struct Waking {
  Ns time_ns = 0;
  std::int32_t rank = 0;
};

class WakeTimes {
 public:
  /// Later than any time.
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();

  /// Nobody wakes.
  explicit WakeTimes(std::int32_t ranks)
      : leaves_(std::bit_ceil(index(ranks))), times_(2 * leaves_, kNever), ranks_(2 * leaves_, 0) {
    for (std::int32_t rank = 0; rank < ranks; ++rank) set(rank, kNever);
  }

  Ns of(std::int32_t rank) const { return times_[leaves_ + index(rank)]; }
  /// kNever at the earliest when nobody wakes.
  Waking earliest() const { return {.time_ns = times_[1], .rank = ranks_[1]}; }

  void set(std::int32_t rank, Ns time_ns) {
    std::size_t node = leaves_ + index(rank);
    while (true) {
      times_[node] = time_ns;
      ranks_[node] = rank;
      if (node == 1) return;
      const Ns time_beside = times_[node ^ 1];
      const std::int32_t rank_beside = ranks_[node ^ 1];
      const bool is_earlier = (time_beside < time_ns) | ((time_beside == time_ns) & (rank_beside < rank));
      time_ns = is_earlier ? time_beside : time_ns;
      rank = is_earlier ? rank_beside : rank;
      node /= 2;
    }
  }

 private:
  std::size_t leaves_;
  std::vector<Ns> times_;  // by node: the root at 1, the children of n at 2n and 2n + 1, the ranks at leaves_
  std::vector<std::int32_t> ranks_;
};

}  // namespace penstock
