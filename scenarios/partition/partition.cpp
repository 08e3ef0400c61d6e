// Applies the rule that cuts layers into stages, and computes the bytes that cross a cut. Example: the
// layers are 0 1 2 | 3 4. Layer 3 reads layers 1 and 2, and layer 4 reads layer 1. So the outputs of
// layers 1 and 2 cross the cut. Each output counts once. Tested by partition_test.cpp.

#include "scenarios/partition/partition.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

/// Checks that the cuts are ascending and distinct, and that there is one cut fewer than stages.
tl::expected<void, std::string> check_cuts(const std::vector<std::int32_t>& cuts, std::int32_t layers,
                                           std::int32_t stages) {
  if (static_cast<std::int32_t>(cuts.size()) != stages - 1) {
    return tl::unexpected(fmt::format("partition: expected {} cuts (one fewer than stages), got {}: [{}]",
                                      stages - 1, cuts.size(), fmt::join(cuts, ", ")));
  }
  std::int32_t previous = 0;
  for (const std::int32_t cut : cuts) {
    if (cut <= previous || cut >= layers) {
      return tl::unexpected(
          fmt::format("partition: expected ascending cuts from 1 to {} for {} layers, got [{}]", layers - 1,
                      layers, fmt::join(cuts, ", ")));
    }
    previous = cut;
  }
  return {};
}

}  // namespace

tl::expected<std::vector<std::int32_t>, std::string> cut_layers(const LayerGraph& graph,
                                                                const Partition& partition,
                                                                std::int32_t stages,
                                                                const std::vector<double>& slowness) {
  const auto layers = static_cast<std::int32_t>(graph.layers.size());
  if (stages < 1)
    return tl::unexpected(fmt::format("expected at least one stage to cut into, got {}", stages));
  if (stages > layers) {
    return tl::unexpected(fmt::format(
        "the model has {} layers, too few for {} stages; take at most {} stages", layers, stages, layers));
  }
  switch (partition.rule) {
    case Partition::Rule::cuts:
      if (auto checked = check_cuts(partition.cuts, layers, stages); !checked)
        return tl::unexpected(checked.error());
      return partition.cuts;
    case Partition::Rule::balanced:
      return balanced_cuts(graph, stages, slowness);
    case Partition::Rule::block:
      if (slowness.empty()) return block_cuts(graph, stages);
      return tl::unexpected(
          std::string("partition: block is for devices that are alike; take balanced, or a list of cuts"));
    // with_planned_partition() should have replaced this rule by Rule::cuts before.
    case Partition::Rule::pipedream:
      return tl::unexpected(std::string("partition: pipedream has to be planned before layers are cut"));
    case Partition::Rule::unset:
      if (stages == 1) return std::vector<std::int32_t>{};
      return tl::unexpected(
          fmt::format("partition: the model is layers and the program has {} stages: expected `partition: "
                      "balanced`, block or pipedream, or the list of cuts between them, got nothing",
                      stages));
  }
  return std::vector<std::int32_t>{};
}

tl::expected<Bytes, std::string> cut_bytes(const LayerGraph& graph, std::int32_t cut) {
  // Each layer has one mark, because its output crosses the cut only once even if several later layers read
  // it.
  std::vector<char> crosses(static_cast<std::size_t>(cut), 0);
  for (std::size_t layer = static_cast<std::size_t>(cut); layer < graph.layers.size(); ++layer) {
    for (const std::int32_t input : graph.layers[layer].inputs) {
      if (input < cut) crosses[static_cast<std::size_t>(input)] = 1;
    }
  }
  Bytes total = 0;
  for (std::size_t layer = 0; layer < crosses.size(); ++layer) {
    if (crosses[layer] != 0 && __builtin_add_overflow(total, graph.layers[layer].output, &total)) {
      return tl::unexpected(
          fmt::format("the outputs that cross the cut before layer {} add up to more than 2^63 bytes", cut));
    }
  }
  return total;
}

// Cuts layers into stages so that the longest stage is as short as possible. Bisection finds the smallest
// bound B on a stage's time. A bound is feasible if at most K stages are needed when each stage gets as many
// layers as the bound allows. (If fewer stages are needed, some of them can be split to get K stages.) Among
// all partitions within B, a recurrence finds the least pair of (sum of squared gaps to B, memory of the
// fullest stage):
//
//   best(s, j) = min over i of (squares(s-1, i) + (B - time(i, j))^2, max(memory(s-1, i), memory(s, i, j)))
//
//   B = 3      1 1 1 1 1 1 1 1 1 1      ten equal layers on four stages
//              1|3    |3    |3          within B, the earliest cuts
//              2  |3    |3    |2        as equal as possible
//              2  |2  |3    |3          of those the smallest: the first stages hold most microbatches
//
// The recurrence may compare pairs after each stage, because a smaller pair for the first stages never makes
// the result larger. A stage that ends at layer j and respects B can begin only at a limited range of layers.
// This gives about L^2 / K steps for each stage. If stages are on unlike devices, a stage's time is the sum
// of its layers times the slowness of its device. Tested by partition_test.cpp.

namespace {

/// The prefix sums of one figure: for every n, the sum over the first n layers.
class PrefixSums {
 public:
  template <typename Of>
  PrefixSums(const LayerGraph& graph, Of of) : sums_(1, 0) {
    for (const Layer& layer : graph.layers) sums_.push_back(sums_.back() + of(layer));
  }
  Wide operator()(std::size_t begin, std::size_t end) const { return sums_[end] - sums_[begin]; }

 private:
  std::vector<Wide> sums_;
};

/// A search for the cuts between stages. It first finds the smallest possible time of the longest stage
/// (the bound). Every partition that it returns respects this bound.
class CutSearch {
 public:
  CutSearch(const LayerGraph& graph, std::int32_t stages, std::vector<double> slowness = {})
      : layers_(graph.layers.size()),
        stages_(static_cast<std::size_t>(stages)),
        slowness_(std::move(slowness)),
        times_(graph,
               [](const Layer& layer) { return static_cast<Wide>(layer.forward_ns) + layer.backward_ns; }),
        kept_(graph, [](const Layer& layer) { return static_cast<Wide>(layer.kept_bytes()); }),
        weights_(graph, [](const Layer& layer) { return static_cast<Wide>(layer.weights); }),
        bound_(least_bound()),
        first_(first_of_windows()) {}

  std::vector<std::int32_t> earliest() const {
    std::vector<std::int32_t> cuts(stages_ - 1);
    std::size_t end = layers_;
    for (std::size_t stage = stages_ - 1; stage > 0; --stage) {
      // Each stage begins as early as the bound allows, but leaves at least one layer for each earlier stage.
      end = std::max(first_of(stage, end), stage);
      cuts[stage - 1] = static_cast<std::int32_t>(end);
    }
    return cuts;
  }

  std::vector<std::int32_t> balanced() const {
    const std::vector<std::vector<std::int32_t>> begins = best_begins();
    std::vector<std::int32_t> cuts(stages_ - 1);
    std::size_t end = layers_;
    for (std::size_t stage = stages_ - 1; stage > 0; --stage) {
      cuts[stage - 1] = begins[stage][end];
      end = static_cast<std::size_t>(cuts[stage - 1]);
    }
    return cuts;
  }

 private:
  /// The quality of a division of the first layers: the sum of squared gaps to the bound, then the memory.
  /// Smaller is better. Memory is compared only if the sums are equal.
  struct Worth {
    Wide squares = kUnreached;
    Wide memory = kUnreached;
    auto operator<=>(const Worth&) const = default;
  };
  static constexpr Wide kUnreached = static_cast<Wide>(1) << 126;

  /// Returns the time of a stage with the layers from `begin` to `end`.
  Wide time(std::size_t stage, std::size_t begin, std::size_t end) const {
    const Wide stated = times_(begin, end);
    return slowness_.empty() ? stated
                             : static_cast<Wide>(std::round(static_cast<double>(stated) * slowness_[stage]));
  }

  /// Returns the number of stages if each stage gets as many layers as the bound allows. This number is
  /// minimal, because a stage that ends earlier leaves more work for later stages. Requires that all
  /// devices are equally fast.
  std::size_t stages_needed(Wide bound) const {
    std::size_t stages = 1;
    std::size_t begin = 0;
    for (std::size_t end = 1; end <= layers_; ++end) {
      // The layer before `end` begins the next stage. It fits there, because the bound is at least the
      // longest layer.
      if (times_(begin, end) <= bound) continue;
      ++stages;
      begin = end - 1;
    }
    return stages;
  }

  Wide least_bound() const {
    if (!slowness_.empty()) return least_bound_on_unlike_devices();
    // The longest stage is at least the longest layer and at most the sum of all layers.
    Wide low = 0;
    for (std::size_t layer = 0; layer < layers_; ++layer) low = std::max(low, times_(layer, layer + 1));
    Wide high = times_(0, layers_);
    while (low < high) {
      const Wide middle = low + (high - low) / 2;
      if (stages_needed(middle) <= stages_) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  /// Returns the least time of the longest stage on unlike devices. A stage may not get as many layers as
  /// fit, because the next layer may be too long for a slow device. So all divisions are compared:
  ///
  ///   best(s, j) = min over i of max(best(s-1, i), time(s, i, j))
  Wide least_bound_on_unlike_devices() const {
    std::vector<Wide> before(layers_ + 1, kUnreached);
    before[0] = 0;
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      std::vector<Wide> here(layers_ + 1, kUnreached);
      for (std::size_t end = stage + 1; end + (stages_ - stage - 1) <= layers_; ++end) {
        for (std::size_t begin = stage; begin < end; ++begin)
          here[end] = std::min(here[end], std::max(before[begin], time(stage, begin, end)));
      }
      before = std::move(here);
    }
    return before[layers_];
  }

  /// Returns, for each stage and each end of the stage, the first layer at which it may begin without
  /// exceeding the bound. If all devices are equally fast, all stages have the same list.
  std::vector<std::vector<std::size_t>> first_of_windows() const {
    std::vector<std::vector<std::size_t>> windows;
    for (std::size_t stage = 0; stage < (slowness_.empty() ? 1 : stages_); ++stage) {
      std::vector<std::size_t>& first = windows.emplace_back(layers_ + 1, 0);
      for (std::size_t end = 1; end <= layers_; ++end) {
        // A stage that ends later cannot begin earlier within the bound, so the search goes on from the
        // previous result.
        first[end] = first[end - 1];
        while (time(stage, first[end], end) > bound_) ++first[end];
      }
    }
    return windows;
  }
  std::size_t first_of(std::size_t stage, std::size_t end) const {
    return first_[slowness_.empty() ? 0 : stage][end];
  }

  /// Returns the square of the gap between the bound and the time of a stage. On equally fast devices, the
  /// sum of these squares orders partitions as the sum of squared times does. On unlike devices, this sum
  /// is smallest where stages take equally long. The sum of squared times would instead favour many layers
  /// on the fast devices. The unit of time is so large that a million squares add up to less than
  /// kUnreached.
  Wide square(std::size_t stage, std::size_t begin, std::size_t end) const {
    // A stage has at most 2^52 units, so its square is at most 2^104. The unit is one nanosecond if the bound
    // is at most 2^52 ns (52 days).
    constexpr Wide kMost = static_cast<Wide>(1) << 52;
    const Wide unit = bound_ / kMost + 1;
    const Wide units = (bound_ - time(stage, begin, end)) / unit;
    return units * units;
  }

  Wide memory(std::size_t stage, std::size_t begin, std::size_t end) const {
    // The memory consists of weights, gradients, and the activations of all microbatches that 1F1B has in
    // flight on this stage.
    return 2 * weights_(begin, end) + static_cast<Wide>(stages_ - stage) * kept_(begin, end);
  }

  /// Returns, for s stages of the first j layers and for all s and j, the first layer of stage s in the best
  /// partition. If several layers are equally good, returns the earliest one.
  std::vector<std::vector<std::int32_t>> best_begins() const {
    std::vector<std::vector<std::int32_t>> begins(stages_, std::vector<std::int32_t>(layers_ + 1, 0));
    std::vector<Worth> before(layers_ + 1);
    before[0] = {.squares = 0, .memory = 0};
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      std::vector<Worth> here(layers_ + 1);
      // Each earlier stage needs at least one layer, and so does each later one.
      for (std::size_t end = stage + 1; end + (stages_ - stage - 1) <= layers_; ++end) {
        for (std::size_t begin = std::max(first_of(stage, end), stage); begin < end; ++begin) {
          // The layers before `begin` cannot form the earlier stages within the bound.
          if (before[begin].squares == kUnreached) continue;
          const Worth worth{.squares = before[begin].squares + square(stage, begin, end),
                            .memory = std::max(before[begin].memory, memory(stage, begin, end))};
          // If two beginnings of the stage are equally good, the earlier one is retained.
          if (worth >= here[end]) continue;
          here[end] = worth;
          begins[stage][end] = static_cast<std::int32_t>(begin);
        }
      }
      before = std::move(here);
    }
    return begins;
  }

  std::size_t layers_;
  std::size_t stages_;
  std::vector<double> slowness_;
  PrefixSums times_;
  PrefixSums kept_;
  PrefixSums weights_;
  Wide bound_;
  std::vector<std::vector<std::size_t>> first_;
};

}  // namespace

std::vector<std::int32_t> balanced_cuts(const LayerGraph& graph, std::int32_t stages,
                                        const std::vector<double>& slowness) {
  return CutSearch(graph, stages, slowness).balanced();
}

std::vector<std::int32_t> earliest_cuts(const LayerGraph& graph, std::int32_t parts) {
  return CutSearch(graph, parts).earliest();
}

// Balances stages as torchgpipe does (Kim et al., arXiv:2004.09910, section 2.3). The algorithm is by Barany
// and Grinberg, "Block partitions of sequences" (arXiv:1308.2452). At first all blocks have about equally
// many elements. Let p be the largest block. Let q be the smallest block; if there are several, it is the one
// that is nearest to p. As long as p exceeds q by more than the largest element, q takes one element from its
// neighbour on the side of p:
//
//      p          h   q                   p        h     q
//   | 3 1 2 | 2 | 1 | 1 |  becomes     | 3 1 2 | 2 |  | 1 1 |   and so on, until p itself gives one
//
// The neighbour is never empty, because an empty block would be a smallest block nearer to p. If there are
// several smallest blocks, the code of torchgpipe uses the first instead of the nearest. It may therefore
// take an element from an empty block, or never end. Tests: tests/scenarios/partition_test.cpp.

namespace {

/// Returns the time of each layer minus the smallest time of all layers.
std::vector<Wide> sizes_of(const LayerGraph& graph) {
  std::vector<Wide> sizes;
  sizes.reserve(graph.layers.size());
  for (const Layer& layer : graph.layers)
    sizes.push_back(static_cast<Wide>(layer.forward_ns) + layer.backward_ns);
  const Wide least = *std::ranges::min_element(sizes);
  for (Wide& size : sizes) size -= least;
  return sizes;
}

/// A division of a list of layer times into consecutive blocks, with the sum of each block.
class Blocks {
 public:
  Blocks(const std::vector<Wide>& sizes, std::ptrdiff_t count) : sizes_(sizes) {
    const auto length = static_cast<std::ptrdiff_t>(sizes.size());
    // The last block gets the remainder. The algorithm balances it later.
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

  /// Returns the number of the block with the smallest sum. Among equal blocks, returns the one nearest to
  /// `other`, and the earlier one of two at equal distance.
  std::ptrdiff_t least_nearest_to(std::ptrdiff_t other) const {
    const Wide least = *std::ranges::min_element(sums_);
    std::ptrdiff_t nearest = -1;
    for (std::ptrdiff_t block = 0; block < std::ssize(sums_); ++block) {
      if (sum(block) != least) continue;
      if (nearest < 0 || std::abs(block - other) < std::abs(nearest - other)) nearest = block;
    }
    return nearest;
  }

  /// Moves one element of block `giver` to its neighbour `taker`: the element at their common boundary.
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
    // Another block may become the largest one, but p changes only after p itself has given an element.
    if (giver == largest) largest = blocks.largest();
  }
}

tl::expected<std::vector<std::int32_t>, std::string> cut_buckets(const LayerGraph& graph,
                                                                 const std::vector<std::int32_t>& ends,
                                                                 const std::vector<std::int32_t>& buckets) {
  std::vector<std::int32_t> all;
  std::int32_t begin = 0;
  for (std::size_t stage = 0; stage < buckets.size(); ++stage) {
    const std::int32_t end = ends[stage];
    if (buckets[stage] > end - begin) {
      return tl::unexpected(fmt::format("schedule.buckets: stage {} has {} layers, too few for {} buckets",
                                        stage, end - begin, buckets[stage]));
    }
    // The inputs still refer to layers of the whole model, but balancing does not read them.
    LayerGraph layers;
    layers.layers.assign(graph.layers.begin() + begin, graph.layers.begin() + end);
    for (const std::int32_t cut : earliest_cuts(layers, buckets[stage])) all.push_back(begin + cut);
    all.push_back(end);
    begin = end;
  }
  return all;
}

}  // namespace penstock
