// Layers into stages: against all partitions of small graphs, and what a cut carries.

#include "scenarios/partition/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "tests/scenarios/layer_chain.hpp"

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

}  // namespace
}  // namespace penstock
