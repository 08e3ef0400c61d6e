// Layers are cut twice: between stages by the scenario's partition, inside a stage between its buckets.
//
//   layers   a b c | d      partition [3], buckets [2, 1]      ends  1 3 4
//            a | b c | d

#include "scenarios/prepare/stage_cut.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"

namespace penstock {
namespace {

using Numbers = std::vector<std::int32_t>;

/// One number a stage; none where none are stated.
tl::expected<Numbers, std::string> by_stage(const Numbers& stated, std::int32_t stages) {
  if (std::ranges::any_of(stated, [](std::int32_t count) { return count < 1; })) {
    return tl::unexpected(
        fmt::format("schedule.buckets: expected numbers of at least 1, got [{}]", fmt::join(stated, ", ")));
  }
  if (stated.size() == 1) return Numbers(static_cast<std::size_t>(stages), stated.front());
  if (stated.empty() || static_cast<std::int32_t>(stated.size()) == stages) return stated;
  return tl::unexpected(fmt::format(
      "schedule.buckets: expected one number or a list of {}, one for each stage of the model, got a list of "
      "{}",
      stages, stated.size()));
}

Numbers no_more_than_layers(Numbers buckets, const Numbers& ends) {
  std::int32_t begin = 0;
  for (std::size_t stage = 0; stage < buckets.size(); ++stage) {
    buckets[stage] = std::min(buckets[stage], ends[stage] - begin);
    begin = ends[stage];
  }
  return buckets;
}

tl::expected<StageCut, std::string> cut_graph(const LayerGraph& graph, const Partition& partition,
                                              StageCut cut, bool one_number) {
  auto cuts = cut_layers(graph, partition, cut.stages);
  if (!cuts) return tl::unexpected(cuts.error());
  const auto layers = static_cast<std::int32_t>(graph.layers.size());
  Numbers ends = *cuts;
  ends.push_back(layers);
  if (one_number) cut.buckets = no_more_than_layers(std::move(cut.buckets), ends);
  if (!cut.buckets.empty()) {
    cuts = cut_buckets(graph, *cuts, cut.buckets);
    if (!cuts) return tl::unexpected(cuts.error());
    ends = *std::move(cuts);
    ends.push_back(layers);
  }
  cut.ends = std::move(ends);
  return cut;
}

}  // namespace

tl::expected<StageCut, std::string> cut_model(const Model& model, const Partition& partition,
                                              std::int32_t stages, const Numbers& stated_buckets) {
  const auto* figures = std::get_if<StageFigures>(&model);
  if (!stated_buckets.empty() && figures != nullptr && !figures->edges.empty()) {
    return tl::unexpected(std::string(
        "schedule.buckets: stages with edges of their own cannot be cut; leave model.stages.edges out"));
  }
  auto buckets = by_stage(stated_buckets, stages);
  if (!buckets) return tl::unexpected(buckets.error());
  StageCut cut{.stages = stages, .buckets = *std::move(buckets)};
  const auto* graph = std::get_if<LayerGraph>(&model);
  return graph == nullptr ? cut : cut_graph(*graph, partition, std::move(cut), stated_buckets.size() == 1);
}

StageCut without_buckets(const StageCut& cut) {
  if (cut.buckets.empty()) return cut;
  StageCut whole{.stages = cut.stages};
  std::size_t last = 0;
  for (const std::int32_t count : cut.buckets) {
    last += static_cast<std::size_t>(count);
    if (!cut.ends.empty()) whole.ends.push_back(cut.ends[last - 1]);
  }
  return whole;
}

std::vector<std::vector<std::string>> layers_of_stages(const LayerGraph& graph, const StageCut& cut) {
  std::vector<std::vector<std::string>> names(cut.ends.size());
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < names.size(); ++stage) {
    for (; layer < static_cast<std::size_t>(cut.ends[stage]); ++layer)
      names[stage].push_back(graph.layers[layer].name);
  }
  return names;
}

}  // namespace penstock
