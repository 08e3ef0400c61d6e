// Builds one program that contains all pipelines. Pipeline d has the stages d*K .. d*K + K-1 on the ranks
// with these numbers. It has edges only between its own stages.

#include "bench/shared_links.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// Returns a program that contains a 1F1B program several times, with different stage and rank numbers.
Program side_by_side(const SharedPipelines& shape) {
  const Program one = generate("1f1b", {.stages = shape.stages, .microbatches = shape.microbatches}).value();
  Program all = one;
  all.placement.stages.clear();
  all.ranks.clear();
  for (std::int32_t pipeline = 0; pipeline < shape.pipelines; ++pipeline) {
    const std::int32_t first = pipeline * shape.stages;
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      all.placement.stages.push_back({.ranks = {first + stage}});
      if (stage > 0) all.edges.push_back({first + stage - 1, first + stage});
      std::vector<Action>& list = all.ranks.emplace_back(one.ranks[index(stage)]);
      for (Action& action : list) action.stage += first;
    }
  }
  return lower(all).value();
}

/// Returns the costs. A forward takes 0.95 to 1.05 ms, which a formula computes from pipeline and stage. So
/// neighbours on a server seldom send at the same moment.
CostTable uneven_costs(const SharedPipelines& shape) {
  CostTable costs;
  for (std::int32_t pipeline = 0; pipeline < shape.pipelines; ++pipeline) {
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      const Ns spread = (std::int64_t{pipeline} * 7919 + std::int64_t{stage} * 104'729) % 1000 * 100;
      costs.stages.push_back({.forward_ns = 950'000 + spread, .backward_ns = 2 * (950'000 + spread)});
      if (stage > 0) costs.edges.push_back({shape.message_bytes, shape.message_bytes});
    }
  }
  return costs;
}

/// Returns the cluster. Device p of server k belongs to pipeline p, so rank p*K + k is on device k*P + p.
Cluster servers(const SharedPipelines& shape) {
  std::vector<std::int32_t> places;
  for (std::int32_t pipeline = 0; pipeline < shape.pipelines; ++pipeline) {
    for (std::int32_t stage = 0; stage < shape.stages; ++stage)
      places.push_back(stage * shape.pipelines + pipeline);
  }
  return two_level_cluster({.nodes = shape.stages,
                            .devices_per_node = shape.pipelines,
                            .inter_bytes_per_second = 50.0 * (1 << 30),
                            .inter_latency_ns = 4000,
                            .device_order = places})
      .value();
}

}  // namespace

Experiment pipelines_on_shared_links(const SharedPipelines& shape) {
  return {.name = "pipelines on shared links",
          .program = side_by_side(shape),
          .costs = uneven_costs(shape),
          .cluster = servers(shape),
          .channels = {},
          .notes = {}};
}

}  // namespace penstock
