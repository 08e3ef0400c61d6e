#pragma once
// Who has seen what: one count a slot (a host thread or a stream), joined where something orders two of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace standin {

class VectorClock {
 public:
  std::uint64_t of(std::size_t slot) const { return slot < counts_.size() ? counts_[slot] : 0; }
  /// One step of `slot` itself.
  void tick(std::size_t slot) {
    if (slot >= counts_.size()) counts_.resize(slot + 1);
    ++counts_[slot];
  }
  /// What `other` has seen, this has seen, too.
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
