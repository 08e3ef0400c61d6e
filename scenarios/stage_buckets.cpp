#include "scenarios/stage_buckets.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model.hpp"
#include "scenarios/partition.hpp"
#include "scenarios/scenario.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/generators.hpp"

namespace penstock {
namespace {

using Numbers = tl::expected<std::vector<std::int32_t>, std::string>;

std::int32_t stages_of_the_model(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  return scenario.shape.stages *
         (schedule == nullptr ? scenario.shape.virtual_stages : chunks_of(*schedule, scenario.shape));
}

/// No more buckets than a stage has layers.
Numbers within_layers(const LayerGraph& graph, const Partition& partition,
                      std::vector<std::int32_t> buckets) {
  auto ends = cut_layers(graph, partition, static_cast<std::int32_t>(buckets.size()));
  if (!ends) return ends;
  ends->push_back(static_cast<std::int32_t>(graph.layers.size()));
  std::int32_t begin = 0;
  for (std::size_t stage = 0; stage < buckets.size(); ++stage) {
    buckets[stage] = std::min(buckets[stage], (*ends)[stage] - begin);
    begin = (*ends)[stage];
  }
  return buckets;
}

__extension__ typedef __int128 Wide;

/// Part i of n; the parts of a figure add up to it.
std::int64_t part(std::int64_t figure, std::int32_t i, std::int32_t n) {
  const Wide whole = figure;
  return static_cast<std::int64_t>(whole * (i + 1) / n - whole * i / n);
}

}  // namespace

Numbers stage_buckets(const Scenario& scenario) {
  const std::vector<std::int32_t>& stated = scenario.shape.buckets;
  if (stated.empty()) return stated;
  if (scenario.program)
    return tl::unexpected(std::string("schedule.buckets: a program has its own stages; leave it out"));
  const auto* figures = std::get_if<StageFigures>(&scenario.model);
  if (figures != nullptr && !figures->edges.empty()) {
    return tl::unexpected(std::string(
        "schedule.buckets: stages with edges of their own cannot be cut; leave model.stages.edges out"));
  }
  const std::int32_t stages = stages_of_the_model(scenario);
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  if (stated.size() == 1) {
    const std::vector<std::int32_t> all(static_cast<std::size_t>(stages), stated.front());
    return graph == nullptr ? Numbers(all) : within_layers(*graph, scenario.partition, all);
  }
  if (static_cast<std::int32_t>(stated.size()) == stages) return stated;
  return tl::unexpected(fmt::format(
      "schedule.buckets: expected one number or a list of {}, one for each stage of the model, got a list of "
      "{}",
      stages, stated.size()));
}

StageCost bucket_of(const StageCost& stage, std::int32_t i, std::int32_t n) {
  StageCost bucket = stage;  // `transient`, too: one bucket runs at a time
  bucket.forward_ns = part(stage.forward_ns, i, n);
  bucket.backward_ns = part(stage.backward_ns, i, n);
  bucket.backward_input_ns = part(stage.backward_input_ns, i, n);
  bucket.backward_weight_ns = bucket.backward_ns - bucket.backward_input_ns;
  bucket.recompute_ns = part(stage.recompute_ns, i, n);
  bucket.step_ns = part(stage.step_ns, i, n);
  bucket.kept = part(stage.kept, i, n);
  bucket.released_by_input = std::min(part(stage.released_by_input, i, n), bucket.kept);
  bucket.input = i == 0 ? stage.input : 0;
  bucket.weights = part(stage.weights, i, n);
  bucket.gradients = part(stage.gradients, i, n);
  bucket.optimizer_state = part(stage.optimizer_state, i, n);
  return bucket;
}

}  // namespace penstock
