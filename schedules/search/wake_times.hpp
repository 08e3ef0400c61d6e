#pragma once
// The next time at which each rank looks for work, in a tree over the ranks. Every node stores the earlier
// one of its two children. For equal times it stores the lower rank. Only schedules/ includes this header.

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

/// A rank, and the time at which it looks for work.
struct Waking {
  Ns time_ns = 0;
  std::int32_t rank = 0;
};

/// The next wake-up time of every rank.
class WakeTimes {
 public:
  /// A time later than any other time.
  static constexpr Ns kNever = std::numeric_limits<Ns>::max();

  /// Sets the time of all ranks to kNever.
  explicit WakeTimes(std::int32_t ranks)
      : leaves_(std::bit_ceil(index(ranks))),
        rank_bits_(std::countr_zero(leaves_)),
        nodes_(2 * leaves_, kNever) {}

  Ns of(std::int32_t rank) const { return time_of(nodes_[leaves_ + index(rank)]); }
  /// Returns the earliest wake-up of all ranks. Its time is kNever if no rank will wake up.
  Waking earliest() const {
    const Ns node = nodes_[1];
    return {.time_ns = time_of(node),
            .rank = node == kNever ? 0 : static_cast<std::int32_t>(node & (std::ssize(nodes_) / 2 - 1))};
  }

  /// Sets the time of a rank. Requires kNever or a time below 2^63 / ranks. A search rejects costs that could
  /// give longer times.
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
  /// Times, each with its rank in the lowest bits. The root has index 1, node n has the children 2n and 2n +
  /// 1, and the ranks begin at index leaves_.
  std::vector<Ns> nodes_;
};

}  // namespace penstock
