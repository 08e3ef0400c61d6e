// The least bound B on a stage's time comes from bisection: a bound is kept when filling stages one after the
// other as full as it allows needs no more than K of them (fewer can always be split up to K without raising
// it). Of all partitions within B the one with the least (sum of squared times, memory of the fullest stage),
// in this order, by recurrence:
//
//   best(s, j) = min over i of (squares(s-1, i) + time(i, j)^2, max(memory(s-1, i), memory(s, i, j)))
//
//   B = 3      1 1 1 1 1 1 1 1 1 1      ten equal layers on four stages
//              1|3    |3    |3          within B, the earliest cuts
//              2  |3    |3    |2        as equal as can be
//              2  |2  |3    |3          of those the smallest: the first stages hold most microbatches
//
// A smaller prefix never makes a larger whole in either figure, so that pairs can be compared one stage after
// the other. A stage within B is a window of layers that slides with j: about L^2 / K runs a stage.

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

/// Sums over the layers before each place.
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

/// Both answers begin with the bound: the least time in which K stages can be had at all.
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
      // As early as the bound allows, but each of the `stage` stages before needs a layer, too.
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
  /// Of stages up to one: the first that is smaller is better.
  struct Worth {
    Wide squares = kUnreached;
    Wide memory = kUnreached;
    auto operator<=>(const Worth&) const = default;
  };
  static constexpr Wide kUnreached = static_cast<Wide>(1) << 126;

  /// By filling each stage as full as it goes, which no other way beats: a stage that ends earlier only
  /// leaves more to those behind it.
  std::size_t stages_needed(Wide bound) const {
    std::size_t stages = 1;
    std::size_t begin = 0;
    for (std::size_t end = 1; end <= layers_; ++end) {
      // The layer before `end` begins the next stage. It fits there alone, as no bound is below the
      // longest layer.
      if (times_(begin, end) <= bound) continue;
      ++stages;
      begin = end - 1;
    }
    return stages;
  }

  Wide least_bound() const {
    // No stage takes less than the longest layer, and none takes more than all layers.
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

  /// For each end the first layer from which a stage is within the bound.
  std::vector<std::size_t> first_of_windows() const {
    std::vector<std::size_t> first(layers_ + 1, 0);
    for (std::size_t end = 1; end <= layers_; ++end) {
      // A later end never lets a stage begin earlier, so both ends only move forward.
      first[end] = first[end - 1];
      while (times_(first[end], end) > bound_) ++first[end];
    }
    return first;
  }

  /// In units in which the squares of a million stages add up to less than kUnreached.
  Wide square(std::size_t begin, std::size_t end) const {
    // A stage is at most 2^52 units, its square 2^104. Within 2^52 ns (52 days) a unit is a nanosecond.
    constexpr Wide kMost = static_cast<Wide>(1) << 52;
    const Wide unit = bound_ / kMost + 1;
    const Wide time = times_(begin, end) / unit;
    return time * time;
  }

  Wide memory(std::size_t stage, std::size_t begin, std::size_t end) const {
    // Weights and their gradients; of activations, as many microbatches as 1F1B has in flight on this
    // stage.
    return 2 * weights_(begin, end) + static_cast<Wide>(stages_ - stage) * kept_(begin, end);
  }

  /// From which layer the best run of each stage and end begins, the first where several are equal.
  std::vector<std::vector<std::int32_t>> best_begins() const {
    std::vector<std::vector<std::int32_t>> begins(stages_, std::vector<std::int32_t>(layers_ + 1, 0));
    std::vector<Worth> before(layers_ + 1);
    before[0] = {.squares = 0, .memory = 0};
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      std::vector<Worth> here(layers_ + 1);
      // At least a layer for each earlier stage, and one for each later one.
      for (std::size_t end = stage + 1; end + (stages_ - stage - 1) <= layers_; ++end) {
        for (std::size_t begin = std::max(first_[end], stage); begin < end; ++begin) {
          // The layers before cannot be had in that many stages within the bound.
          if (before[begin].squares == kUnreached) continue;
          const Worth worth{.squares = before[begin].squares + square(begin, end),
                            .memory = std::max(before[begin].memory, memory(stage, begin, end))};
          // A tie keeps the earlier begin.
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
