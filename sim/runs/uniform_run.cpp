// A shortcut past scenarios for those who have a program and costs (figures of schedules, reproductions): a
// device a rank, links without bandwidth limit and one latency, prepared like any other experiment and given
// to simulate().

#include "sim/runs/uniform_run.hpp"

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lower.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/presets.hpp"

namespace penstock {

tl::expected<Result, std::string> simulate_uniform(const Program& program, const CostTable& costs,
                                                   Ns latency_ns, SteadyState steady) {
  auto lowered = lower(program);
  if (!lowered) return tl::unexpected(std::move(lowered.error()));
  auto cluster = uniform_cluster({.devices = program.rank_count(), .latency_ns = latency_ns});
  if (!cluster) return tl::unexpected(std::move(cluster.error()));
  auto result = simulate({.name = program.schedule,
                          .program = *std::move(lowered),
                          .costs = costs,
                          .cluster = *std::move(cluster),
                          .channels = {},
                          .notes = {}},
                         {.memory = {.samples = false}, .steady = steady});
  if (!result) return tl::unexpected(std::move(result.error().message));
  return *std::move(result);
}

}  // namespace penstock
