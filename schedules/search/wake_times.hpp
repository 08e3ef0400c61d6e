#pragma once
// When each rank looks for work next: a tree over the ranks, every node of which holds the earlier of the two
// below, the lower rank on a tie. Private to schedules/.

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
      : leaves_(std::bit_ceil(index(ranks))),
        rank_bits_(std::countr_zero(leaves_)),
        nodes_(2 * leaves_, kNever) {}

  Ns of(std::int32_t rank) const { return time_of(nodes_[leaves_ + index(rank)]); }
  /// kNever at the earliest when nobody wakes.
  Waking earliest() const {
    const Ns node = nodes_[1];
    return {.time_ns = time_of(node),
            .rank = node == kNever ? 0 : static_cast<std::int32_t>(node & (std::ssize(nodes_) / 2 - 1))};
  }

  /// Requires a time below 2^63 / ranks, or kNever: whoever states times that long is refused before a
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
  /// Times and, in their lowest bits, ranks: the root at 1, the children of n at 2n and 2n + 1, ranks at
  /// leaves_.
  std::vector<Ns> nodes_;
};

}  // namespace penstock
