// Cuts layers into stages so that the longest stage is as short as possible. Bisection finds the smallest
// bound B on a stage's time. A bound is feasible if at most K stages are needed when each stage is filled up
// to it. (Fewer stages can always be split into K without a longer one.) Among all partitions within B, a
// recurrence finds the least pair of (sum of squared times, memory of the fullest stage):
//
//   best(s, j) = min over i of (squares(s-1, i) + time(i, j)^2, max(memory(s-1, i), memory(s, i, j)))
//
//   B = 3      1 1 1 1 1 1 1 1 1 1      ten equal layers on four stages
//              1|3    |3    |3          within B, the earliest cuts
//              2  |3    |3    |2        as equal as possible
//              2  |2  |3    |3          of those the smallest: the first stages hold most microbatches
//
// The recurrence may compare pairs stage by stage, because a smaller prefix never makes the whole larger. The
// layers at which a stage within B may begin form a window that moves with j. This gives about L^2 / K steps
// for each stage. Tested by balanced_cuts_test.cpp.

#include "scenarios/partition/balanced_cuts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "scenarios/model/model.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// The sum over the first n layers, for every n.
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

/// A search for cuts. Both of its results use the smallest bound on the time of K stages.
class CutSearch {
 public:
  CutSearch(const LayerGraph& graph, std::int32_t stages)
      : layers_(graph.layers.size()),
        stages_(static_cast<std::size_t>(stages)),
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
      end = std::max(first_[end], stage);
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
  /// The figures of the stages so far. The first figure that differs decides, and smaller is better.
  struct Worth {
    Wide squares = kUnreached;
    Wide memory = kUnreached;
    auto operator<=>(const Worth&) const = default;
  };
  static constexpr Wide kUnreached = static_cast<Wide>(1) << 126;

  /// Returns the number of stages if each is filled up to the bound. This number is minimal, because a stage
  /// that ends earlier only leaves more work for later stages.
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

  /// Returns, for each end, the first layer at which a stage within the bound may begin.
  std::vector<std::size_t> first_of_windows() const {
    std::vector<std::size_t> first(layers_ + 1, 0);
    for (std::size_t end = 1; end <= layers_; ++end) {
      // If the end moves forward, the first layer never moves back.
      first[end] = first[end - 1];
      while (times_(first[end], end) > bound_) ++first[end];
    }
    return first;
  }

  /// Returns the squared time of a stage, in a unit with which a million squares add up to less than
  /// kUnreached.
  Wide square(std::size_t begin, std::size_t end) const {
    // A stage has at most 2^52 units, so its square is at most 2^104. The unit is one nanosecond if the bound
    // is at most 2^52 ns (52 days).
    constexpr Wide kMost = static_cast<Wide>(1) << 52;
    const Wide unit = bound_ / kMost + 1;
    const Wide time = times_(begin, end) / unit;
    return time * time;
  }

  Wide memory(std::size_t stage, std::size_t begin, std::size_t end) const {
    // The memory consists of weights, gradients, and the activations of all microbatches that 1F1B has in
    // flight on this stage.
    // stage.
    return 2 * weights_(begin, end) + static_cast<Wide>(stages_ - stage) * kept_(begin, end);
  }

  /// Returns, for each stage and end, the first layer of the best last stage. On a tie it is the earliest
  /// layer.
  std::vector<std::vector<std::int32_t>> best_begins() const {
    std::vector<std::vector<std::int32_t>> begins(stages_, std::vector<std::int32_t>(layers_ + 1, 0));
    std::vector<Worth> before(layers_ + 1);
    before[0] = {.squares = 0, .memory = 0};
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      std::vector<Worth> here(layers_ + 1);
      // Each earlier stage needs at least one layer, and so does each later one.
      for (std::size_t end = stage + 1; end + (stages_ - stage - 1) <= layers_; ++end) {
        for (std::size_t begin = std::max(first_[end], stage); begin < end; ++begin) {
          // The earlier layers cannot form this number of stages within the bound.
          if (before[begin].squares == kUnreached) continue;
          const Worth worth{.squares = before[begin].squares + square(begin, end),
                            .memory = std::max(before[begin].memory, memory(stage, begin, end))};
          // On a tie the earlier beginning is retained.
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
  PrefixSums times_;
  PrefixSums kept_;
  PrefixSums weights_;
  Wide bound_;
  std::vector<std::size_t> first_;
};

}  // namespace

std::vector<std::int32_t> balanced_cuts(const LayerGraph& graph, std::int32_t stages) {
  return CutSearch(graph, stages).balanced();
}

std::vector<std::int32_t> earliest_cuts(const LayerGraph& graph, std::int32_t parts) {
  return CutSearch(graph, parts).earliest();
}

}  // namespace penstock
