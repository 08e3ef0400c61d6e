// Balanced cuts against every partition of small graphs: shortest largest stage, then least memory, then most
// equal.

#include "scenarios/partition/balanced_cuts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "tests/scenarios/layer_chain.hpp"

namespace penstock {
namespace {

LayerGraph light_chain(const std::vector<Ns>& times) { return layer_chain(times, {.output = 1}); }

using Cuts = std::vector<std::int32_t>;

/// Largest time of a stage, sum of squared times, memory of the fullest, the cuts: the first that differs
/// decides.
using Judged = std::tuple<Ns, std::int64_t, Bytes, Cuts>;

Judged judged(const LayerGraph& graph, const Cuts& cuts) {
  Cuts ends = cuts;
  ends.push_back(static_cast<std::int32_t>(graph.layers.size()));
  Judged whole{0, 0, 0, cuts};
  std::int32_t layer = 0;
  for (std::size_t stage = 0; stage < ends.size(); ++stage) {
    Ns time = 0;
    Bytes kept = 0;
    Bytes weights = 0;
    for (; layer < ends[stage]; ++layer) {
      const Layer& of = graph.layers[static_cast<std::size_t>(layer)];
      time += of.forward_ns + of.backward_ns;
      kept += of.kept_bytes();
      weights += of.weights;
    }
    const auto in_flight = static_cast<Bytes>(ends.size() - stage);
    auto& [longest, squares, fullest, unused] = whole;
    longest = std::max(longest, time);
    fullest = std::max(fullest, 2 * weights + in_flight * kept);
    squares += time * time;
  }
  return whole;
}

/// Calls `visit` with each ascending list of stages - 1 cuts that begins with `cuts`.
void for_each_partition(std::int32_t layers, std::int32_t stages,
                        const std::function<void(const Cuts&)>& visit, const Cuts& cuts = {}) {
  const std::int32_t left = stages - 1 - static_cast<std::int32_t>(cuts.size());
  if (left == 0) return visit(cuts);
  for (std::int32_t cut = cuts.empty() ? 1 : cuts.back() + 1; cut + left <= layers; ++cut) {
    Cuts longer = cuts;
    longer.push_back(cut);
    for_each_partition(layers, stages, visit, longer);
  }
}

Judged best_of_all(const LayerGraph& graph, std::int32_t stages) {
  Judged best{std::numeric_limits<Ns>::max(), 0, 0, {}};
  for_each_partition(static_cast<std::int32_t>(graph.layers.size()), stages, [&](const Cuts& cuts) {
    const Judged one = judged(graph, cuts);
    // Of equal ones any is as good: cuts are compared apart.
    if (std::tuple(std::get<0>(one), std::get<1>(one), std::get<2>(one)) <
        std::tuple(std::get<0>(best), std::get<1>(best), std::get<2>(best)))
      best = one;
  });
  return best;
}

LayerGraph random_graph(std::mt19937& random, std::int32_t layers) {
  std::uniform_int_distribution<Ns> time(0, 6);
  std::uniform_int_distribution<Bytes> bytes(0, 5);
  std::vector<Ns> times(static_cast<std::size_t>(layers));
  std::ranges::generate(times, [&] { return time(random); });
  LayerGraph graph = light_chain(times);
  for (Layer& layer : graph.layers) {
    layer.kept = bytes(random);
    layer.weights = bytes(random);
  }
  return graph;
}

TEST(BalancedCuts, AreAsGoodAsTheBestOfAllPartitions) {
  std::mt19937 random(7);
  for (std::int32_t layers = 1; layers <= 9; ++layers) {
    for (int sample = 0; sample < 20; ++sample) {
      const LayerGraph graph = random_graph(random, layers);
      for (std::int32_t stages = 1; stages <= layers; ++stages) {
        const auto [time, squares, memory, found] = judged(graph, balanced_cuts(graph, stages));
        const auto [least_time, least_squares, least_memory, best] = best_of_all(graph, stages);
        EXPECT_EQ(std::tuple(time, squares, memory), std::tuple(least_time, least_squares, least_memory))
            << layers << " layers, " << stages << " stages, sample " << sample;
        EXPECT_EQ(std::get<0>(judged(graph, earliest_cuts(graph, stages))), least_time);
      }
    }
  }
}

TEST(BalancedCuts, GiveTheFirstStagesFewerOfEqualLayers) {
  // Three layers are the most that any stage needs; 1F1B holds four microbatches on the first and one on the
  // last.
  //
  //   2 | 2 | 3 | 3      held  4 x 2, 3 x 2, 2 x 3, 1 x 3
  EXPECT_EQ(balanced_cuts(layer_chain(std::vector<Ns>(10, 1), {.output = 1}), 4), (Cuts{2, 4, 7}));
}

TEST(BalancedCuts, WeighWeightsAgainstWhatMicrobatchesKeep) {
  LayerGraph graph = light_chain({1, 1, 1, 1, 1});
  for (Layer& layer : graph.layers) layer.kept = 1;
  EXPECT_EQ(balanced_cuts(graph, 2), (Cuts{2})) << "two microbatches of two layers, one of three";
  graph.layers.back().weights = 10;
  EXPECT_EQ(balanced_cuts(graph, 2), (Cuts{3})) << "the last layer's weights leave room for one more only";
}

TEST(BalancedCuts, AreEqualBeforeTheyAreSmall) {
  LayerGraph graph = light_chain({9, 1, 1, 1, 1});
  for (Layer& layer : graph.layers) layer.kept = 0;
  graph.layers[1].kept = 100;  // better alone in memory
  EXPECT_EQ(balanced_cuts(graph, 3), (Cuts{1, 3})) << "9 2 2 rather than 9 1 3 or 9 3 1";
}

TEST(EarliestCuts, AreTheEarliestOfThoseWithTheLeastLargestPart) {
  //   1 | 1 | 1 | 1 1        9 | 1 | 1 1        0 | 0 0
  EXPECT_EQ(earliest_cuts(light_chain({1, 1, 1, 1, 1}), 4), (Cuts{1, 2, 3}));
  EXPECT_EQ(earliest_cuts(light_chain({9, 1, 1, 1}), 3), (Cuts{1, 2}));
  EXPECT_EQ(earliest_cuts(light_chain({0, 0, 0}), 2), (Cuts{1}));
}

TEST(BalancedCuts, OfEqualLayersAreEqual) {
  EXPECT_EQ(balanced_cuts(light_chain(std::vector<Ns>(48, 3)), 4), (Cuts{12, 24, 36}));
}

TEST(BalancedCuts, OfOneStageAreNone) { EXPECT_TRUE(balanced_cuts(light_chain({5, 6}), 1).empty()); }

TEST(BalancedCuts, OfAsManyStagesAsLayersAreAll) {
  EXPECT_EQ(balanced_cuts(light_chain({0, 7, 1}), 3), (Cuts{1, 2}));
}

TEST(BalancedCuts, HoldForTimesThatAddUpBeyond64Bits) {
  const Ns half = std::numeric_limits<Ns>::max() / 2;
  EXPECT_EQ(balanced_cuts(light_chain({half, half, half, half, half, half}), 3), (Cuts{2, 4}));
}

}  // namespace
}  // namespace penstock
