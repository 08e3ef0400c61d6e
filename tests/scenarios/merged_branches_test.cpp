// Tests that wide branches are merged. The resulting graph must have the time and bytes of the model, and few
// enough downsets for planning.

#include "scenarios/partition/pipedream_partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

class Graph {
 public:
  std::int32_t add(std::vector<std::int32_t> inputs) {
    const auto number = static_cast<std::int32_t>(graph.layers.size());
    std::ranges::sort(inputs);
    graph.layers.push_back({.name = "l" + std::to_string(number),
                            .forward_ns = 10,
                            .backward_ns = 20,
                            .output = 100 + number,
                            .weights = 5,
                            .inputs = std::move(inputs)});
    return number;
  }

  std::int32_t branch(std::int32_t from, int length) {
    for (int i = 0; i < length; ++i) from = add({from});
    return from;
  }

  LayerGraph graph;
};

//   l0 -+-> . -> . ------+-> join -+-> ..      {2, 3}: downsets of a block are 3 x 4, of blocks they add up
//       +-> . -> . -> . -+         +-> ..
/// Returns blocks of parallel branches with these lengths between single layers, as in Inception.
LayerGraph blocks(int count, const std::vector<int>& lengths) {
  Graph made;
  std::int32_t last = made.add({});
  for (int block = 0; block < count; ++block) {
    std::vector<std::int32_t> ends;
    for (const int length : lengths) ends.push_back(made.branch(last, length));
    last = made.add(ends);
  }
  return made.graph;
}

//   c0 -> c1 -> c2 -> c3        each cell reads the one before it and the one before that
//    +-----------^     ^
//          +-----------+
/// Returns cells that read the two cells before them, as in NASNet. No layer between the ends is on every
/// path.
LayerGraph cells(int count, int width) {
  Graph made;
  std::int32_t before = made.add({});
  std::int32_t last = made.add({before});
  for (int cell = 0; cell < count; ++cell) {
    std::vector<std::int32_t> ends;
    for (int i = 0; i < width; ++i) ends.push_back(made.branch(i % 2 == 0 ? last : before, 1 + i % 3));
    before = std::exchange(last, made.add(ends));
  }
  return made.graph;
}

/// Returns the bytes of the outputs of layers in `before` that other layers read. Each output counts once.
Bytes crossing(const LayerGraph& graph, const std::set<std::int32_t>& before) {
  std::set<std::int32_t> read;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    if (before.contains(static_cast<std::int32_t>(layer))) continue;
    for (const std::int32_t input : graph.layers[layer].inputs)
      if (before.contains(input)) read.insert(input);
  }
  Bytes bytes = 0;
  for (const std::int32_t layer : read) bytes += graph.layers[static_cast<std::size_t>(layer)].output;
  return bytes;
}

Ns time_of(const LayerGraph& graph) {
  Ns time = 0;
  for (const Layer& layer : graph.layers) time += layer.forward_ns + layer.backward_ns;
  return time;
}

Bytes kept_of(const LayerGraph& graph) {
  Bytes bytes = 0;
  for (const Layer& layer : graph.layers) bytes += layer.kept_bytes();
  return bytes;
}

/// Checks that no layer is missing or occurs twice, and that each layer comes after its inputs.
void expect_same_model(const LayerGraph& graph, const MergedGraph& merged) {
  EXPECT_EQ(time_of(merged.graph), time_of(graph));
  EXPECT_EQ(kept_of(merged.graph), kept_of(graph));
  std::set<std::int32_t> members;
  for (std::size_t layer = 0; layer < merged.members.size(); ++layer) {
    members.insert(merged.members[layer].begin(), merged.members[layer].end());
    for (const std::int32_t input : merged.graph.layers[layer].inputs)
      EXPECT_LT(input, static_cast<std::int32_t>(layer));
  }
  EXPECT_EQ(members.size(), graph.layers.size());
}

TEST(MergedBranches, MakesOneLayerOfWhatLiesBetweenTwoThatEveryPathCrosses) {
  const LayerGraph graph = blocks(3, {4, 5, 6, 3});
  EXPECT_FALSE(can_be_planned_over(blocks(9, {4, 5, 6, 3})));
  const MergedGraph merged = merged_branches(graph);
  expect_same_model(graph, merged);
  EXPECT_EQ(merged.members.front(), (std::vector<std::int32_t>{0}));
  // The layers that join branches are not merged, and all inputs of such a layer are merged into one layer.
  EXPECT_LE(merged.graph.layers.size(), graph.layers.size() / 2);
  EXPECT_TRUE(can_be_planned_over(merged_branches(blocks(9, {4, 5, 6, 3})).graph));
}

TEST(MergedBranches, LeavesNarrowBranchesAlone) {
  const LayerGraph residual = blocks(20, {3, 1});
  EXPECT_TRUE(can_be_planned_over(residual));
  EXPECT_EQ(merged_branches(residual).graph, residual);
}

TEST(MergedBranches, LeavesFewEnoughDownsetsToPlanOver) {
  for (const LayerGraph& graph : {blocks(12, {9, 10, 9, 8}), cells(20, 10), cells(60, 6)}) {
    const MergedGraph merged = merged_branches(graph);
    expect_same_model(graph, merged);
    EXPECT_TRUE(downsets_of(merged.graph, 600).has_value()) << merged.graph.layers.size();
  }
}

TEST(MergedBranches, PutsAnAuxiliaryHeadWithTheLayerBehindItsRegion) {
  // Two wide blocks, a separate head beside the second block, and two more blocks:
  //
  //   0 =block= a =block= b =block= c =block= d
  //             +-> head
  Graph made;
  std::vector<std::int32_t> joins = {made.add({})};
  std::int32_t head = 0;
  for (int block = 0; block < 4; ++block) {
    std::vector<std::int32_t> ends;
    for (const int length : {5, 6, 7, 4}) ends.push_back(made.branch(joins.back(), length));
    if (block == 1) head = made.branch(joins.back(), 3);
    joins.push_back(made.add(ends));
  }
  ASSERT_FALSE(can_be_planned_over(made.graph));
  const MergedGraph merged = merged_branches(made.graph);
  expect_same_model(made.graph, merged);
  for (const std::vector<std::int32_t>& members : merged.members) {
    if (std::ranges::find(members, head) == members.end()) continue;
    EXPECT_EQ(members, (std::vector<std::int32_t>{head - 2, head - 1, head, joins[2]}));
  }
  // The blocks after the head can still be cut at the layers that join their branches.
  for (const std::int32_t join : {joins[1], joins[3], joins[4]})
    EXPECT_TRUE(std::ranges::count(merged.members, std::vector<std::int32_t>{join}) == 1) << join;
}

TEST(MergedBranches, CutsBetweenCellsWhereOnlyTheirOutputsCross) {
  const LayerGraph graph = cells(12, 10);
  const MergedGraph merged = merged_branches(graph);
  std::set<std::int32_t> before;
  std::set<std::int32_t> merged_before;
  int narrow = 0;
  for (std::size_t layer = 0; layer < merged.members.size(); ++layer) {
    before.insert(merged.members[layer].begin(), merged.members[layer].end());
    merged_before.insert(static_cast<std::int32_t>(layer));
    // At most the outputs of two cells cross here. The same bytes must cross in the merged graph.
    if (crossing(graph, before) > 2 * 400) continue;
    EXPECT_EQ(crossing(merged.graph, merged_before), crossing(graph, before)) << layer;
    ++narrow;
  }
  EXPECT_GE(narrow, 12);
}

TEST(MergedBranches, MakesAChainOfHeightsWhereNothingIsSeriesOrParallel) {
  const LayerGraph graph = cells(12, 10);
  EXPECT_FALSE(can_be_planned_over(graph));
  const MergedGraph merged = merged_branches(graph);
  expect_same_model(graph, merged);
  EXPECT_TRUE(can_be_planned_over(merged.graph));
  EXPECT_GT(merged.graph.layers.size(), 12);
  const std::vector<BandwidthLevel> levels = {{.components = 4, .bytes_per_second = 1e9}};
  const auto plan = plan_pipeline(merged.graph, levels, {});
  ASSERT_TRUE(plan) << plan.error();
}

TEST(MergedBranches, CountsWhatIsReadOutsideOnce) {
  // Two wide branches. After the merged layer, each of them is read twice.
  const MergedGraph merged = merged_branches(blocks(1, {40, 41}));
  ASSERT_LT(merged.graph.layers.size(), 82);
  Bytes alive = 0;
  for (const Layer& layer : merged.graph.layers) alive = std::max(alive, layer.output);
  EXPECT_LE(alive, 2 * 200);  // the outputs of the last layers of both branches, without the layers inside
}

}  // namespace
}  // namespace penstock
