// Cuts a model of layers by the scenario's partition. Other models already consist of stages.
//
//   layers   a b c | d      partition [3]      ends  3 4

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
#include "scenarios/partition/bucket_cuts.hpp"
#include "scenarios/partition/partition.hpp"

namespace penstock {

tl::expected<StageCut, std::string> cut_model(const Model& model, const Partition& partition,
                                              std::int32_t stages) {
  const auto* graph = std::get_if<LayerGraph>(&model);
  if (graph == nullptr) return StageCut{.stages = stages};
  auto cuts = cut_layers(*graph, partition, stages);
  if (!cuts) return tl::unexpected(cuts.error());
  cuts->push_back(static_cast<std::int32_t>(graph->layers.size()));
  return StageCut{.stages = stages, .ends = *std::move(cuts)};
}

// --- bucket cut ------------------------------------------------------------------------------------------
//
// The layers of a stage are cut again if its gradients are reduced in several buckets:
//
//   layers   a b c | d      buckets [2, 1]      a | b c | d      ends  1 3 4

namespace {

using Numbers = std::vector<std::int32_t>;

/// Returns one number for each stage. A single stated number applies to all stages.
tl::expected<Numbers, std::string> by_stage(const Numbers& stated, std::int32_t stages) {
  if (std::ranges::any_of(stated, [](std::int32_t count) { return count < 1; })) {
    return tl::unexpected(
        fmt::format("schedule.buckets: expected numbers of at least 1, got [{}]", fmt::join(stated, ", ")));
  }
  if (stated.size() == 1) return Numbers(static_cast<std::size_t>(stages), stated.front());
  if (static_cast<std::int32_t>(stated.size()) == stages) return stated;
  return tl::unexpected(fmt::format(
      "schedule.buckets: expected one number or a list of {}, one for each stage of the model, got a list of "
      "{}",
      stages, stated.size()));
}

/// Limits a single number for all stages to the number of layers of each stage. A list is not limited, and
/// cut_buckets() refuses numbers that are too large.
Numbers no_more_than_layers(Numbers buckets, const Numbers& ends) {
  std::int32_t begin = 0;
  for (std::size_t stage = 0; stage < buckets.size(); ++stage) {
    buckets[stage] = std::min(buckets[stage], ends[stage] - begin);
    begin = ends[stage];
  }
  return buckets;
}

}  // namespace

tl::expected<StageCut, std::string> cut_into_buckets(const Model& model, const StageCut& whole,
                                                     const Numbers& stated) {
  if (stated.empty()) return whole;
  const auto* figures = std::get_if<StageFigures>(&model);
  if (figures != nullptr && !figures->edges.empty()) {
    return tl::unexpected(std::string(
        "schedule.buckets: stages with edges of their own cannot be cut; leave model.stages.edges out"));
  }
  auto buckets = by_stage(stated, whole.stages);
  if (!buckets) return tl::unexpected(buckets.error());
  StageCut cut{.stages = whole.stages, .buckets = *std::move(buckets)};
  // Stages without layers are divided into equal parts when they are priced (stage_costs.cpp).
  const auto* graph = std::get_if<LayerGraph>(&model);
  if (graph == nullptr) return cut;
  if (stated.size() == 1) cut.buckets = no_more_than_layers(std::move(cut.buckets), whole.ends);
  auto ends = cut_buckets(*graph, whole.ends, cut.buckets);
  if (!ends) return tl::unexpected(ends.error());
  cut.ends = *std::move(ends);
  return cut;
}

}  // namespace penstock
