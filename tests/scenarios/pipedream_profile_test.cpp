// Tests profiles in PipeDream's format: small profiles in this file, and the published profiles if they are
// available.

#include "scenarios/read/load.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "schedules/ir/action.hpp"
#include "tests/scenarios/library_model.hpp"

namespace penstock {
namespace {

constexpr std::string_view kFigures =
    " -- forward_compute_time=1.500, backward_compute_time=2.25, activation_size=8.000, parameter_size=4.000";

std::string node(std::int64_t id, std::string_view operation = "Op(a=1, b=2)") {
  return "node" + std::to_string(id) + " -- " + std::string(operation) + std::string(kFigures) + "\n";
}

std::string edge(std::int64_t from, std::int64_t to) {
  return "\tnode" + std::to_string(from) + " -- node" + std::to_string(to) + "\n";
}

LayerGraph graph_of(const std::string& text) {
  auto graph = parse_pipedream_profile(text, "graph.txt");
  EXPECT_TRUE(graph) << graph.error();
  return graph.value_or(LayerGraph{});
}

std::string profile_refusal(const std::string& text) {
  const auto graph = parse_pipedream_profile(text, "graph.txt");
  return graph ? "no error" : graph.error();
}

std::vector<std::string> names(const LayerGraph& graph) {
  std::vector<std::string> result;
  result.reserve(graph.layers.size());
  for (const Layer& layer : graph.layers) result.push_back(layer.name);
  return result;
}

TEST(PipedreamProfile, ReadsTimesInMillisecondsAndSizesInBytes) {
  const Layer expected{.name = "Op-4",
                       .forward_ns = 1'500'000,
                       .backward_ns = 2'250'000,
                       .output = 8,
                       .weights = 4,
                       .inputs = {}};
  EXPECT_EQ(graph_of(node(4)).layers, std::vector<Layer>{expected});
}

TEST(PipedreamProfile, AcceptsAssignedStagesAndForeignLineEnds) {
  std::string text = node(1) + node(2) + edge(1, 2);
  std::string other = text;
  other.insert(other.find('\n'), " -- stage_id=3");
  for (std::size_t at = 0; (at = other.find('\n', at)) != std::string::npos; at += 2) other.insert(at, "\r");
  EXPECT_EQ(graph_of(other), graph_of(text));
}

TEST(PipedreamProfile, AddsUpSeveralOutputs) {
  std::string text = node(1);
  text.replace(text.find("8.000"), 5, "[6.0; 1.0; 2.0]");
  EXPECT_EQ(graph_of(text).layers[0].output, 9);
}

TEST(PipedreamProfile, OrderTakesTheSmallestReadyNumber) {
  // The edges are 9 -> 2 -> 1, 9 -> 5 -> 1 and 1 -> 10, and node 30 is alone. As a number 10 is after 9, but
  // as a text it would be before 9.
  const LayerGraph graph = graph_of(node(1) + node(2) + node(5) + node(9) + node(10) + node(30) + edge(9, 2) +
                                    edge(2, 1) + edge(9, 5) + edge(5, 1) + edge(1, 10));
  EXPECT_EQ(names(graph), (std::vector<std::string>{"Op-9", "Op-2", "Op-5", "Op-1", "Op-10", "Op-30"}));
  EXPECT_EQ(graph.layers[3].inputs, (std::vector{1, 2}));
}

TEST(PipedreamProfile, DropsWhatLoadsDataAndPartsThatNothingReads) {
  const LayerGraph graph = graph_of(node(1, "Input") + node(2, "Input0") + node(3, "InputNorm(3)") +
                                    node(4, "__getitem__(0)") + node(5, "__getitem__(1)") + node(6) +
                                    edge(1, 3) + edge(2, 3) + edge(3, 4) + edge(3, 5) + edge(4, 6));
  EXPECT_EQ(names(graph), (std::vector<std::string>{"InputNorm-3", "__getitem__-4", "Op-6"}));
  EXPECT_TRUE(graph.layers[0].inputs.empty());
}

TEST(PipedreamProfile, ErrorsNameFileAndLine) {
  EXPECT_EQ(profile_refusal(""), "graph.txt: the profile has no layer");
  EXPECT_EQ(profile_refusal(node(1, "Input")), "graph.txt: the profile has no layer");
  EXPECT_EQ(profile_refusal(node(1) + "\n" + node(1)), "graph.txt:3: node1 is given twice, first in line 1");
  EXPECT_EQ(profile_refusal(node(1) + edge(1, 2)),
            "graph.txt:2: the edge names node2, which is no node of the file");
  EXPECT_EQ(profile_refusal(node(1) + "\tnode1\n"), "graph.txt:2: expected an edge `nodeA -- nodeB`");
  EXPECT_EQ(profile_refusal(node(3) + node(1) + node(2) + edge(1, 2) + edge(2, 1)),
            "graph.txt:2: node1 is on a cycle of edges, or behind one");
  EXPECT_EQ(profile_refusal(node(1) + edge(1, 1)),
            "graph.txt:1: node1 is on a cycle of edges, or behind one");
  EXPECT_TRUE(profile_refusal("what is this\n").starts_with("graph.txt:1: expected `nodeN -- OPERATION -- "));
  std::string negative = node(1);
  negative.replace(negative.find("1.500"), 5, "-1");
  EXPECT_EQ(profile_refusal(negative),
            "graph.txt:1: forward_compute_time: expected a number of milliseconds, got \"-1\"");
}

TEST(PublishedProfile, OfVgg16AddsUp) {
  const auto graph = reference_profile("vgg16");
  if (!graph) GTEST_SKIP() << kNoReference;
  Ns time = 0;
  Bytes outputs = 0;
  for (const Layer& layer : graph->layers) {
    time += layer.forward_ns + layer.backward_ns;
    outputs += layer.output;
  }
  EXPECT_EQ(graph->layers.size(), 40U);
  EXPECT_EQ(time, 672'535'000);
  // The output of the dropped Input node: 128 x 3 x 224 x 224 floats.
  constexpr Bytes kLoadedImages = 77'070'336;
  EXPECT_EQ(outputs + kLoadedImages, 14'759'219'204) << "the 14.8 GB of PipeDream, section 2";
}

TEST(PublishedProfile, OfAlexNetHasNoLoadingLayer) {
  const auto graph = reference_profile("alexnet");
  if (!graph) GTEST_SKIP() << kNoReference;
  EXPECT_EQ(graph->layers.size(), 22U);
  EXPECT_EQ(graph->layers.front().name, "Conv2d-2");
  const auto slowest = std::ranges::max_element(graph->layers, {}, &Layer::forward_ns);
  EXPECT_EQ(slowest->forward_ns, 22'316'000);
}

TEST(PublishedProfile, OfGnmtBalancesTo25868MicrosecondsOnFourStages) {
  const auto graph = reference_profile("gnmt");
  if (!graph) GTEST_SKIP() << kNoReference;
  std::vector<std::int32_t> cuts = balanced_cuts(*graph, 4);
  cuts.push_back(static_cast<std::int32_t>(graph->layers.size()));
  Ns total = 0;
  Ns largest = 0;
  std::int32_t begin = 0;
  for (const std::int32_t end : cuts) {
    Ns stage = 0;
    for (; begin < end; ++begin) {
      const Layer& layer = graph->layers[static_cast<std::size_t>(begin)];
      stage += layer.forward_ns + layer.backward_ns;
    }
    total += stage;
    largest = std::max(largest, stage);
  }
  EXPECT_EQ(total, 89'416'000);
  EXPECT_EQ(largest, 25'868'000);
}

TEST(PublishedProfile, OfResNet50CutsAcrossItsShortcuts) {
  const auto graph = reference_profile("resnet50");
  if (!graph) GTEST_SKIP() << kNoReference;
  const auto after =
      std::ranges::find_if(graph->layers, [](const Layer& layer) { return layer.name.ends_with("-95"); });
  const auto cut = static_cast<std::int32_t>(after - graph->layers.begin()) + 1;
  EXPECT_EQ(cut_bytes(*graph, cut), 128'450'560);
}

}  // namespace
}  // namespace penstock
