// Builds small experiments.

#include "tests/sim/experiments.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

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

}  // namespace penstock
