// Balances stages as torchgpipe does (Kim et al., arXiv:2004.09910, section 2.3). The algorithm is by Barany
// and Grinberg, "Block partitions of sequences" (arXiv:1308.2452). At first all blocks have about equally
// many elements. Let p be the largest block, and q the least block that is nearest to p. While p exceeds q by
// more than the largest element, q takes one element from its neighbour on the side of p:
//
//      p          h   q                   p        h     q
//   | 3 1 2 | 2 | 1 | 1 |  becomes     | 3 1 2 | 2 |  | 1 1 |   and so on, until p itself gives one
//
// The neighbour is never empty, because otherwise it would be a least block nearer to p. The code of
// torchgpipe takes the first of several least blocks instead of the nearest. It may therefore take from an
// empty block, or never end. Tested by block_partition_test.cpp.

#include "scenarios/partition/block_partition.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "scenarios/model/model.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// Returns the times of the layers minus the least of these times.
std::vector<Wide> sizes_of(const LayerGraph& graph) {
  std::vector<Wide> sizes;
  sizes.reserve(graph.layers.size());
  for (const Layer& layer : graph.layers)
    sizes.push_back(static_cast<Wide>(layer.forward_ns) + layer.backward_ns);
  const Wide least = *std::ranges::min_element(sizes);
  for (Wide& size : sizes) size -= least;
  return sizes;
}

/// Consecutive blocks of a sequence, with the sum of each block.
class Blocks {
 public:
  Blocks(const std::vector<Wide>& sizes, std::ptrdiff_t count) : sizes_(sizes) {
    const auto length = static_cast<std::ptrdiff_t>(sizes.size());
    // The last block gets the remainder, and the algorithm evens it out.
    for (std::ptrdiff_t block = 1; block < count; ++block) ends_.push_back(length / count * block);
    ends_.push_back(length);
    std::ptrdiff_t begin = 0;
    for (const std::ptrdiff_t end : ends_) {
      Wide sum = 0;
      for (; begin < end; ++begin) sum += sizes[static_cast<std::size_t>(begin)];
      sums_.push_back(sum);
    }
  }

  Wide sum(std::ptrdiff_t block) const { return sums_[static_cast<std::size_t>(block)]; }
  std::ptrdiff_t largest() const { return std::ranges::max_element(sums_) - sums_.begin(); }

  /// Returns the least block that is nearest to `other`. If two have equal distance, returns the first.
  std::ptrdiff_t least_nearest_to(std::ptrdiff_t other) const {
    const Wide least = *std::ranges::min_element(sums_);
    std::ptrdiff_t nearest = -1;
    for (std::ptrdiff_t block = 0; block < std::ssize(sums_); ++block) {
      if (sum(block) != least) continue;
      if (nearest < 0 || std::abs(block - other) < std::abs(nearest - other)) nearest = block;
    }
    return nearest;
  }

  /// Moves the element of `giver` that is next to its neighbour `taker` to `taker`.
  void move_element(std::ptrdiff_t giver, std::ptrdiff_t taker) {
    std::ptrdiff_t& end = ends_[static_cast<std::size_t>(std::min(giver, taker))];
    const std::ptrdiff_t element = giver < taker ? --end : end++;
    const Wide size = sizes_[static_cast<std::size_t>(element)];
    sums_[static_cast<std::size_t>(giver)] -= size;
    sums_[static_cast<std::size_t>(taker)] += size;
  }

  std::vector<std::int32_t> cuts() const { return {ends_.begin(), ends_.end() - 1}; }

 private:
  const std::vector<Wide>& sizes_;
  std::vector<std::ptrdiff_t> ends_;
  std::vector<Wide> sums_;
};

}  // namespace

std::vector<std::int32_t> block_cuts(const LayerGraph& graph, std::int32_t stages) {
  const std::vector<Wide> sizes = sizes_of(graph);
  const Wide largest_element = *std::ranges::max_element(sizes);
  Blocks blocks(sizes, stages);
  std::ptrdiff_t largest = blocks.largest();
  while (true) {
    const std::ptrdiff_t least = blocks.least_nearest_to(largest);
    if (blocks.sum(largest) <= blocks.sum(least) + largest_element) return blocks.cuts();
    const std::ptrdiff_t giver = largest < least ? least - 1 : least + 1;
    blocks.move_element(giver, least);
    // The largest block p is chosen again only after it gave an element, even if another block became larger.
    if (giver == largest) largest = blocks.largest();
  }
}

}  // namespace penstock
