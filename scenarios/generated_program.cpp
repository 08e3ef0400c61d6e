// Costs belong to stages and transfer times to the links between their ranks, which only a program tells. A
// schedule that weighs them is therefore generated twice: without costs for its placement, which does not
// depend on them, then with what they are there.

#include "scenarios/generated_program.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/batch.hpp"
#include "scenarios/cluster_spec.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/stage_costs.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/generators.hpp"
#include "schedules/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

bool weighs_costs(const std::string& name) {
  const ScheduleInfo* schedule = find_schedule(name);
  return schedule != nullptr && schedule->weighs_costs;
}

/// How long an activation takes from each stage to the next one.
std::vector<Ns> transfer_times(const Program& program, const CostTable& costs, const Cluster& cluster) {
  std::vector<Ns> times;
  for (std::int32_t stage = 0; stage + 1 < program.stage_count(); ++stage) {
    const std::int32_t from = program.placement.rank_of(stage, 0);
    const std::int32_t to = program.placement.rank_of(stage + 1, 0);
    const Route& route = cluster.route(from, to);
    const Action send{.kind = ActionKind::send_forward, .stage = stage, .microbatch = 0, .peer = stage + 1};
    times.push_back(serialization_ns(transfer_bytes(costs, send), route.bytes_per_second) + route.latency_ns);
  }
  return times;
}

}  // namespace

tl::expected<Program, std::string> generated_program(const Scenario& scenario, const ResolvedBatch& batch) {
  if (scenario.schedule.empty()) {
    return tl::unexpected(
        std::string("schedule.name is missing: expected the name of a schedule such as gpipe"));
  }
  Shape shape = scenario.shape;
  shape.microbatches = batch.microbatches;
  if (!weighs_costs(scenario.schedule)) return generate(scenario.schedule, shape);
  Scenario whole_stages = scenario;
  whole_stages.shape.buckets.clear();
  Shape placement = shape;
  placement.buckets.clear();
  placement.memory_limit.clear();
  auto placed = generate(scenario.schedule, placement);
  if (!placed) return placed;
  auto costs = cost_table(whole_stages, *placed, batch.micro_batch_size);
  if (!costs) return tl::unexpected(costs.error());
  const auto cluster = build_cluster(scenario.cluster, placed->rank_count());
  if (!cluster) return tl::unexpected(cluster.error());
  shape.transfer_ns = transfer_times(*placed, *costs, *cluster);
  shape.costs = *std::move(costs);
  return generate(scenario.schedule, shape);
}

}  // namespace penstock
