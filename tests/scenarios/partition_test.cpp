// Tests the cutting of layers into stages: the bytes that cross a cut, balanced cuts, and the blocks of
// torchgpipe. pipedream_partition_test.cpp tests plans that may replicate a stage.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "schedules/ir/action.hpp"
#include "tests/scenarios/planned_pipeline.hpp"

namespace penstock {
namespace {

TEST(CutLayers, SaysWhatIsWrong) {
  const LayerGraph graph = chain({1, 2, 3});
  using Rule = Partition::Rule;
  EXPECT_EQ(cut_layers(graph, {.rule = Rule::cuts, .cuts = {1, 2}}, 3), (std::vector{1, 2}));
  EXPECT_EQ(cut_layers(graph, {}, 1), (std::vector<std::int32_t>{}));
  EXPECT_EQ(cut_layers(graph, {.rule = Rule::balanced, .cuts = {}}, 4).error(),
            "the model has 3 layers, too few for 4 stages; take at most 3 stages");
  EXPECT_EQ(cut_layers(graph, {.rule = Rule::cuts, .cuts = {1, 3}}, 3).error(),
            "partition: expected ascending cuts from 1 to 2 for 3 layers, got [1, 3]");
  EXPECT_EQ(cut_layers(graph, {.rule = Rule::cuts, .cuts = {2, 2}}, 3).error(),
            "partition: expected ascending cuts from 1 to 2 for 3 layers, got [2, 2]");
  EXPECT_FALSE(cut_layers(graph, {.rule = Rule::cuts, .cuts = {1}}, 3));
  EXPECT_FALSE(cut_layers(graph, {}, 2));
}

// 0 --+-> 1 --> 2 --+--> 4 --> 5
//     +-----> 3 ----+
//     +------------------------^
TEST(CutBytes, CountEachTensorThatIsAliveOnce) {
  LayerGraph graph;
  const std::vector<std::vector<std::int32_t>> inputs = {{}, {0}, {1}, {0}, {2, 3}, {0, 4}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    graph.layers.push_back({.name = "",
                            .forward_ns = 1,
                            .backward_ns = 1,
                            .output = Bytes{1} << i,
                            .weights = 0,
                            .inputs = inputs[i]});
  }
  const std::vector<Bytes> alive = {0, 1, 1 + 2, 1 + 4, 1 + 4 + 8, 1 + 16, 0};
  for (std::int32_t cut = 0; cut <= 6; ++cut) {
    EXPECT_EQ(cut_bytes(graph, cut), alive[static_cast<std::size_t>(cut)]) << "cut " << cut;
  }
}

TEST(CutBytes, BeyondSixtyFourBitsAreAnError) {
  LayerGraph graph = chain({1, 1, 1});
  graph.layers[0].output = graph.layers[1].output = std::numeric_limits<Bytes>::max();
  graph.layers[2].inputs = {0, 1};
  EXPECT_FALSE(cut_bytes(graph, 2));
}

// Compares balanced cuts with all partitions of small graphs. The best partition has the shortest longest
// stage, then the least sum of squares, and then the least memory.

LayerGraph light_chain(const std::vector<Ns>& times) { return layer_chain(times, {.output = 1}); }

using Cuts = std::vector<std::int32_t>;

/// The figures by which partitions are compared, in this order: the time of the longest stage, the sum of
/// squared differences to it, the memory of the fullest stage, the cuts.
using Judged = std::tuple<Ns, std::int64_t, Bytes, Cuts>;

Judged judged(const LayerGraph& graph, const Cuts& cuts, const std::vector<double>& slowness = {}) {
  Cuts ends = cuts;
  ends.push_back(static_cast<std::int32_t>(graph.layers.size()));
  Judged whole{0, 0, 0, cuts};
  std::int32_t layer = 0;
  std::vector<Ns> times;
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
    if (!slowness.empty()) time = std::llround(static_cast<double>(time) * slowness[stage]);
    const auto in_flight = static_cast<Bytes>(ends.size() - stage);
    std::get<0>(whole) = std::max(std::get<0>(whole), time);
    auto& fullest = std::get<2>(whole);
    fullest = std::max(fullest, 2 * weights + in_flight * kept);
    times.push_back(time);
  }
  // If devices are equal, these squares order partitions in the same way as the squares of the times.
  auto& [longest, squares, fullest, unused] = whole;
  for (const Ns time : times) squares += (longest - time) * (longest - time);
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

Judged best_of_all(const LayerGraph& graph, std::int32_t stages, const std::vector<double>& slowness = {}) {
  Judged best{std::numeric_limits<Ns>::max(), 0, 0, {}};
  for_each_partition(static_cast<std::int32_t>(graph.layers.size()), stages, [&](const Cuts& cuts) {
    const Judged one = judged(graph, cuts, slowness);
    // Only the first three figures are compared here. The cuts are compared separately.
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

TEST(BalancedCuts, OnUnlikeDevicesAreAsGoodAsTheBestOfAllPartitions) {
  std::mt19937 random(8);
  std::uniform_int_distribution<int> slow(0, 3);
  constexpr std::array kSlowness = {1.0, 1.5, 3.0, 7.0};
  for (std::int32_t layers = 1; layers <= 8; ++layers) {
    for (int sample = 0; sample < 20; ++sample) {
      const LayerGraph graph = random_graph(random, layers);
      for (std::int32_t stages = 1; stages <= layers; ++stages) {
        std::vector<double> slowness(static_cast<std::size_t>(stages));
        std::ranges::generate(slowness, [&] { return kSlowness.at(static_cast<std::size_t>(slow(random))); });
        const auto [time, squares, memory, found] =
            judged(graph, balanced_cuts(graph, stages, slowness), slowness);
        const auto [least_time, least_squares, least_memory, best] = best_of_all(graph, stages, slowness);
        EXPECT_EQ(std::tuple(time, squares, memory), std::tuple(least_time, least_squares, least_memory))
            << layers << " layers, " << stages << " stages, sample " << sample;
      }
    }
  }
}

TEST(BalancedCuts, GiveTheFirstStagesFewerOfEqualLayers) {
  // No stage needs more than three layers. 1F1B stores four microbatches on the first stage and one on the
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
  graph.layers[1].kept = 100;  // alone in its stage, this layer needs less memory
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

// Tests the block partition of torchgpipe: the expectations of torchgpipe's tests, and the bound of the
// theorem for random sequences.

LayerGraph layers_of_times(const std::vector<Ns>& times) {
  LayerGraph graph;
  for (const Ns time : times)
    graph.layers.push_back({.name = "",
                            .forward_ns = time / 2,
                            .backward_ns = time - time / 2,
                            .output = 0,
                            .weights = 0,
                            .inputs = {}});
  return graph;
}

std::vector<Ns> block_sums(const std::vector<Ns>& times, const std::vector<std::int32_t>& cuts) {
  std::vector<Ns> sums;
  std::int32_t begin = 0;
  for (std::size_t block = 0; block <= cuts.size(); ++block) {
    const std::int32_t end = block < cuts.size() ? cuts[block] : static_cast<std::int32_t>(times.size());
    EXPECT_LT(begin, end) << "a block without layers";
    sums.push_back(std::accumulate(times.begin() + begin, times.begin() + end, Ns{0}));
    begin = end;
  }
  return sums;
}

TEST(BlockCuts, AreTorchgpipesOwnExpectations) {
  // In tests/test_balance.py of kakaobrain/torchgpipe, [1, 2, 3, 4, 5, 6] in two blocks gives 4 and 2 layers,
  // and zeros are divided evenly.
  EXPECT_EQ(block_cuts(layers_of_times({1, 2, 3, 4, 5, 6}), 2), (std::vector{4}));
  EXPECT_EQ(block_cuts(layers_of_times({6, 5, 4, 3, 2, 1}), 2), (std::vector{2}));
  EXPECT_EQ(block_cuts(layers_of_times({0, 0}), 2), (std::vector{1}));
}

TEST(BlockCuts, OfOneStageAreNone) { EXPECT_TRUE(block_cuts(layers_of_times({5, 6}), 1).empty()); }

TEST(BlockCuts, OfAsManyStagesAsLayersAreAllOfThem) {
  EXPECT_EQ(block_cuts(layers_of_times({9, 1, 4, 7}), 4), (std::vector{1, 2, 3}));
}

TEST(BlockCuts, EndWhereTheFirstLeastBlockWouldTakeFromAnEmptyOne) {
  //   | 0 | 0 | 0 | 0 | 1 0 37 |
  //
  // If the first of the smallest blocks took an element, its neighbour would become empty. The nearest
  // smallest block takes an element from the largest block.
  const std::vector<Ns> times = {0, 0, 0, 0, 1, 0, 37};
  EXPECT_EQ(block_sums(times, block_cuts(layers_of_times(times), 5)).size(), 5);
}

TEST(BlockCuts, DifferByAtMostTheLargestLayer) {
  std::mt19937 random(3);
  for (int sample = 0; sample < 2000; ++sample) {
    std::vector<Ns> times(1 + sample % 14);
    std::uniform_int_distribution<Ns> time(0, sample % 3 == 0 ? 2 : 90);
    std::ranges::generate(times, [&] { return time(random); });
    times.back() = 0;  // the least time is 0, so torchgpipe's normalisation changes nothing
    for (std::int32_t stages = 1; stages <= std::ssize(times); ++stages) {
      const std::vector<Ns> sums = block_sums(times, block_cuts(layers_of_times(times), stages));
      EXPECT_LE(*std::ranges::max_element(sums) - *std::ranges::min_element(sums),
                *std::ranges::max_element(times))
          << testing::PrintToString(times) << " in " << stages;
    }
  }
}

TEST(BlockCuts, AreNeverBetterThanTheBalancedOnes) {
  std::mt19937 random(5);
  std::uniform_int_distribution<Ns> time(1, 60);
  int worse = 0;
  for (int sample = 0; sample < 200; ++sample) {
    std::vector<Ns> times(10);
    std::ranges::generate(times, [&] { return time(random); });
    const LayerGraph graph = layers_of_times(times);
    const Ns block = std::ranges::max(block_sums(times, block_cuts(graph, 3)));
    const Ns balanced = std::ranges::max(block_sums(times, balanced_cuts(graph, 3)));
    EXPECT_GE(block, balanced);
    worse += block > balanced ? 1 : 0;
  }
  EXPECT_GT(worse, 0);
}

TEST(BlockCuts, HoldForTimesThatAddUpBeyond64Bits) {
  const Ns half = std::numeric_limits<Ns>::max() / 2;
  EXPECT_EQ(block_cuts(layers_of_times({half, half, half, half, 0, half, half}), 3).size(), 2);
}

}  // namespace
}  // namespace penstock
