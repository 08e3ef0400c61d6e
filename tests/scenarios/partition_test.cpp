// Layers into stages: against all partitions of small graphs, and what a cut carries.

#include "scenarios/partition/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "tests/scenarios/layer_chain.hpp"

namespace penstock {
namespace {

LayerGraph chain(const std::vector<Ns>& times) { return layer_chain(times, {.output = 1}); }

Ns largest_stage(const LayerGraph& graph, std::vector<std::int32_t> cuts) {
  cuts.push_back(static_cast<std::int32_t>(graph.layers.size()));
  Ns largest = 0;
  std::int32_t begin = 0;
  for (const std::int32_t end : cuts) {
    EXPECT_LT(begin, end) << "a stage without layers";
    Ns time = 0;
    for (std::int32_t i = begin; i < end; ++i) {
      const Layer& layer = graph.layers[static_cast<std::size_t>(i)];
      time += layer.forward_ns + layer.backward_ns;
    }
    largest = std::max(largest, time);
    begin = end;
  }
  return largest;
}

/// The least largest stage over every choice of `stages - 1` cuts behind layer `from`.
Ns least_by_brute_force(const LayerGraph& graph, std::int32_t stages, std::vector<std::int32_t> cuts = {}) {
  const auto layers = static_cast<std::int32_t>(graph.layers.size());
  if (static_cast<std::int32_t>(cuts.size()) == stages - 1) return largest_stage(graph, cuts);
  Ns least = std::numeric_limits<Ns>::max();
  const std::int32_t still_needed = stages - 1 - static_cast<std::int32_t>(cuts.size());
  for (std::int32_t cut = cuts.empty() ? 1 : cuts.back() + 1; cut + still_needed <= layers; ++cut) {
    cuts.push_back(cut);
    least = std::min(least, least_by_brute_force(graph, stages, cuts));
    cuts.pop_back();
  }
  return least;
}

TEST(BalancedCuts, AreAsGoodAsTheBestOfAllPartitions) {
  std::mt19937 random(7);
  std::uniform_int_distribution<Ns> time(0, 20);
  for (std::int32_t layers = 1; layers <= 9; ++layers) {
    for (int sample = 0; sample < 20; ++sample) {
      std::vector<Ns> times(static_cast<std::size_t>(layers));
      std::ranges::generate(times, [&] { return time(random); });
      const LayerGraph graph = chain(times);
      for (std::int32_t stages = 1; stages <= layers; ++stages) {
        EXPECT_EQ(largest_stage(graph, balanced_cuts(graph, stages)), least_by_brute_force(graph, stages))
            << layers << " layers, " << stages << " stages, sample " << sample;
      }
    }
  }
}

TEST(BalancedCuts, TakeTheEarliestCutsOnATie) {
  EXPECT_EQ(balanced_cuts(chain({1, 1, 1, 1, 1}), 4), (std::vector{1, 2, 3}));
  EXPECT_EQ(balanced_cuts(chain({9, 1, 1, 1}), 3), (std::vector{1, 2}));
  EXPECT_EQ(balanced_cuts(chain({0, 0, 0}), 2), (std::vector{1}));
}

TEST(BalancedCuts, OfEqualLayersAreEqual) {
  EXPECT_EQ(balanced_cuts(chain(std::vector<Ns>(48, 3)), 4), (std::vector{12, 24, 36}));
}

TEST(BalancedCuts, OfOneStageAreNone) { EXPECT_TRUE(balanced_cuts(chain({5, 6}), 1).empty()); }

TEST(BalancedCuts, HoldForTimesThatAddUpBeyond64Bits) {
  const Ns half = std::numeric_limits<Ns>::max() / 2;
  EXPECT_EQ(balanced_cuts(chain({half, half, half, half, half, half}), 3), (std::vector{2, 4}));
}

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

}  // namespace
}  // namespace penstock
