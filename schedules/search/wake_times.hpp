#pragma once
// The times at which ranks look for work next, in a tree over the ranks. Every node holds the earlier of the
// two times below it, the lower rank on a tie. Only schedules/ includes this header.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

/// A rank and the time at which it looks for work.
struct Waking {
  Ns time_ns = 0;
  std::int32_t rank = 0;
};

/// The next wake-up time of every rank.
class WakeTimes {
 public:
  /// Later than any time.
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();

  /// Begins with kNever for all ranks.
  explicit WakeTimes(std::int32_t ranks)
      : leaves_(std::bit_ceil(index(ranks))),
        rank_bits_(std::countr_zero(leaves_)),
        nodes_(2 * leaves_, kNever) {}

  Ns of(std::int32_t rank) const { return time_of(nodes_[leaves_ + index(rank)]); }
  /// Returns the earliest wake-up. Its time is kNever if no rank will wake up.
  Waking earliest() const {
    const Ns node = nodes_[1];
    return {.time_ns = time_of(node),
            .rank = node == kNever ? 0 : static_cast<std::int32_t>(node & (std::ssize(nodes_) / 2 - 1))};
  }

  /// Sets a rank's time. Requires a time below 2^63 / ranks, or kNever; longer times are refused before a
  /// search.
  void set(std::int32_t rank, Ns time_ns) {
    std::size_t node = leaves_ + index(rank);
    Ns earlier = time_ns == kNever ? kNever : (time_ns << rank_bits_) + rank;
    nodes_[node] = earlier;
    while (node > 1) {
      earlier = std::min(earlier, nodes_[node ^ 1]);
      node /= 2;
      nodes_[node] = earlier;
    }
  }

 private:
  Ns time_of(Ns node) const { return node == kNever ? kNever : node >> rank_bits_; }

  std::size_t leaves_;
  int rank_bits_;
  /// Times with ranks in their lowest bits. The root is at 1, the children of n are at 2n and 2n + 1, and
  /// ranks are at leaves_.
  std::vector<Ns> nodes_;
};

}  // namespace penstock
