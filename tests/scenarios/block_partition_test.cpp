// torchgpipe's block partition: its own tests' expectations, and the bound of the theorem on random
// sequences.

#include "scenarios/partition/block_partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/balanced_cuts.hpp"
#include "scenarios/partition/partition.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

LayerGraph layers_of(const std::vector<Ns>& times) {
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
  // tests/test_balance.py of kakaobrain/torchgpipe: [1, 2, 3, 4, 5, 6] in two is [4, 2]; zeros split evenly.
  EXPECT_EQ(block_cuts(layers_of({1, 2, 3, 4, 5, 6}), 2), (std::vector{4}));
  EXPECT_EQ(block_cuts(layers_of({6, 5, 4, 3, 2, 1}), 2), (std::vector{2}));
  EXPECT_EQ(block_cuts(layers_of({0, 0}), 2), (std::vector{1}));
}

TEST(BlockCuts, OfOneStageAreNone) { EXPECT_TRUE(block_cuts(layers_of({5, 6}), 1).empty()); }

TEST(BlockCuts, OfAsManyStagesAsLayersAreAllOfThem) {
  EXPECT_EQ(block_cuts(layers_of({9, 1, 4, 7}), 4), (std::vector{1, 2, 3}));
}

TEST(BlockCuts, EndWhereTheFirstLeastBlockWouldTakeFromAnEmptyOne) {
  //   | 0 | 0 | 0 | 0 | 1 0 37 |
  //
  // The first of the least blocks would empty its neighbour on the way; the nearest takes from the largest.
  const std::vector<Ns> times = {0, 0, 0, 0, 1, 0, 37};
  EXPECT_EQ(block_sums(times, block_cuts(layers_of(times), 5)).size(), 5);
}

TEST(BlockCuts, DifferByAtMostTheLargestLayer) {
  std::mt19937 random(3);
  for (int sample = 0; sample < 2000; ++sample) {
    std::vector<Ns> times(1 + sample % 14);
    std::uniform_int_distribution<Ns> time(0, sample % 3 == 0 ? 2 : 90);
    std::ranges::generate(times, [&] { return time(random); });
    times.back() = 0;  // the least layer: torchgpipe's normalisation changes nothing
    for (std::int32_t stages = 1; stages <= std::ssize(times); ++stages) {
      const std::vector<Ns> sums = block_sums(times, block_cuts(layers_of(times), stages));
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
    const LayerGraph graph = layers_of(times);
    const Ns block = std::ranges::max(block_sums(times, block_cuts(graph, 3)));
    const Ns balanced = std::ranges::max(block_sums(times, balanced_cuts(graph, 3)));
    EXPECT_GE(block, balanced);
    worse += block > balanced ? 1 : 0;
  }
  EXPECT_GT(worse, 0);
}

TEST(BlockCuts, HoldForTimesThatAddUpBeyond64Bits) {
  const Ns half = std::numeric_limits<Ns>::max() / 2;
  EXPECT_EQ(block_cuts(layers_of({half, half, half, half, 0, half, half}), 3).size(), 2);
}

}  // namespace
}  // namespace penstock
