// Builds small experiments.

#include "tests/sim/experiments.hpp"

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/mixed_bits.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// A figure of 1 to `most`, always the same for the same numbers.
std::int64_t figure(std::int64_t most, std::uint64_t stage, std::uint64_t microbatch, std::uint64_t which) {
  return 1 + static_cast<std::int64_t>(mixed(mixed(stage * 64 + which) + microbatch) %
                                       static_cast<std::uint64_t>(most));
}

template <class Value>
Value value_of(tl::expected<Value, std::string> outcome) {
  if (!outcome) throw std::runtime_error(outcome.error());
  return std::move(*outcome);
}

}  // namespace

Cluster uniform_links(std::int32_t devices, double bytes_per_second, Ns latency_ns) {
  return value_of(uniform_cluster({.devices = devices,
                                   .bytes_per_second = bytes_per_second,
                                   .latency_ns = latency_ns,
                                   .memory_bytes = {}}));
}

Experiment experiment_of(const Program& compute_program, const CostTable& costs, const Cluster& cluster) {
  return {.name = compute_program.schedule,
          .program = value_of(lower(compute_program)),
          .costs = costs,
          .cluster = cluster,
          .channels = {},
          .notes = {}};
}

Experiment uniform_experiment(const std::string& schedule, const Shape& shape, const UniformTimes& times) {
  const Program program = value_of(generate(schedule, shape));
  const StageCost cost{.forward_ns = times.forward_ns,
                       .backward_ns = times.backward_ns,
                       .backward_input_ns = times.backward_ns / 2,
                       .backward_weight_ns = times.backward_ns - times.backward_ns / 2,
                       .recompute_ns = times.forward_ns,
                       .kept = 1};
  return experiment_of(program, uniform_costs(program, cost),
                       uniform_links(program.rank_count(), kUnlimitedBandwidth, times.latency_ns));
}

Ns makespan_ns(const Experiment& experiment) {
  const auto timeline = critical_path(experiment);
  if (!timeline) throw std::runtime_error(timeline.error().message);
  return timeline->makespan_ns;
}

CostTable uneven_costs(const Program& program, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  CostTable costs = unit_costs(program);
  for (StageCost& stage : costs.stages) {
    stage.forward_ns = pick(20);
    stage.backward_ns = pick(40);
    stage.backward_input_ns = pick(20);
    stage.backward_weight_ns = pick(20);
    stage.recompute_ns = pick(20);
    stage.step_ns = pick(5);
    stage.weights = stage.gradients = pick(50);
  }
  for (EdgeCost& edge : costs.edges) edge = {.activation = pick(10), .gradient = pick(10)};
  return costs;
}

CostTable differing_costs(const Program& program, std::size_t distinct) {
  const std::size_t edges = stage_edges(program).size();
  CostTable costs = uniform_costs(program, {.step_ns = 2, .weights = 8, .gradients = 30});
  costs.slices = program.slices;
  for (std::size_t m = 0; m < distinct; ++m) {
    MicrobatchCost& one = costs.microbatches.emplace_back();
    for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
      one.stages.push_back(costs.stages[stage]);
      one.stages.back().forward_ns = figure(20, stage, m, 0);
      one.stages.back().backward_ns = figure(40, stage, m, 1);
      one.stages.back().backward_input_ns = figure(20, stage, m, 2);
      one.stages.back().backward_weight_ns = figure(20, stage, m, 3);
      one.stages.back().recompute_ns = figure(20, stage, m, 4);
    }
    for (std::size_t edge = 0; edge < edges; ++edge)
      one.edges.push_back({.activation = figure(9, edge, m, 5), .gradient = figure(9, edge, m, 6)});
  }
  return costs;
}

FlatProgram flat_of(const Experiment& experiment) {
  return flatten(experiment.program, experiment.costs,
                 {.channels = experiment.channels, .iterations = experiment.program.iterations});
}

}  // namespace penstock
