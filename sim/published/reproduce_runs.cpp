// Papers draw schedules in units of time. A unit is 1 ms here, so that fractions of it are whole nanoseconds;
// all links are free and take at most a stated latency.

#include "sim/published/reproduce_runs.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

Ns unit_ns(double units) { return std::llround(units * kUnitNs); }

}  // namespace

std::vector<UnitTimes> equal_stages(std::size_t count, const UnitTimes& times) { return {count, times}; }

Result predicted_run(const std::string& schedule, const Shape& shape, const std::vector<UnitTimes>& stages,
                     double latency) {
  auto program = generate(schedule, shape);
  if (!program) throw std::logic_error(program.error());
  // Edges carry nothing: latency is all that a message takes.
  CostTable costs{.stages = {}, .edges = std::vector<EdgeCost>(stage_edges(*program).size())};
  for (const UnitTimes& stage : stages) {
    costs.stages.push_back({.forward_ns = unit_ns(stage.forward),
                            .backward_ns = unit_ns(stage.backward),
                            .recompute_ns = unit_ns(stage.recompute)});
  }
  auto result = simulate_uniform(*program, costs, unit_ns(latency), SteadyState::find);
  if (!result) throw std::logic_error(result.error());
  return *std::move(result);
}

double reduction_ms(Cluster cluster, Bytes gradients) {
  const std::int32_t replicas = cluster.device_count();
  // Compute takes no time, so that one microbatch on each replica leaves the reduction alone.
  Shape shape{.stages = 1, .microbatches = replicas};
  shape.replicas = {replicas};
  auto program = generate("data-parallel", shape).and_then([](const Program& p) { return lower(p); });
  if (!program) throw std::logic_error(program.error());
  const auto result = simulate({.name = "all-reduce",
                                .program = *std::move(program),
                                .costs = {.stages = {{.gradients = gradients}}, .edges = {}},
                                .cluster = std::move(cluster),
                                .channels = {},
                                .notes = {}},
                               {.memory = {.samples = false}, .steady = SteadyState::skip});
  if (!result) throw std::logic_error(result.error().message);
  return static_cast<double>(result->makespan_ns) / 1e6;
}

double makespan_units(const Result& result) { return static_cast<double>(result.makespan_ns) / kUnitNs; }

double period_units(const Result& result) {
  const std::optional<double> rate = result.throughput.steady_samples_per_second;
  return rate ? 1e9 / kUnitNs / *rate : 0;
}

}  // namespace penstock
