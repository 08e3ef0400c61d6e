#pragma once
// A vector clock. It has one count for each slot (a host thread or a stream). Two clocks are joined if an
// operation orders the slots.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace standin {

class VectorClock {
 public:
  std::uint64_t of(std::size_t slot) const { return slot < counts_.size() ? counts_[slot] : 0; }
  /// Adds one step of `slot`.
  void tick(std::size_t slot) {
    if (slot >= counts_.size()) counts_.resize(slot + 1);
    ++counts_[slot];
  }
  /// Adds all steps that `other` has seen.
  void join(const VectorClock& other) {
    if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
    for (std::size_t slot = 0; slot < other.counts_.size(); ++slot) {
      counts_[slot] = std::max(counts_[slot], other.counts_[slot]);
    }
  }

 private:
  std::vector<std::uint64_t> counts_;
};

}  // namespace standin
