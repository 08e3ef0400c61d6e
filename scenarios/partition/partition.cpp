// Applies the rule that cuts layers into stages, and computes the bytes that cross a cut. Example: the layers
// are 0 1 2 | 3 4, layer 3 reads 1 and 2, and layer 4 reads 1. The cut carries the outputs of 1 and 2, and
// each counts once. Tested by partition_test.cpp.

#include "scenarios/partition/partition.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/balanced_cuts.hpp"
#include "scenarios/partition/block_partition.hpp"
#include "schedules/ir/action.hpp"

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
                                                                std::int32_t stages) {
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
      return balanced_cuts(graph, stages);
    case Partition::Rule::block:
      return block_cuts(graph, stages);
    // with_planned_partition() replaces this rule by Rule::cuts, so here the plan is missing.
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

}  // namespace penstock
