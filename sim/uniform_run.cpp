#include "sim/uniform_run.hpp"

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "report/result.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/lower.hpp"
#include "schedules/program.hpp"
#include "sim/simulate.hpp"
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
