// Durations are long compared with a launch, and a message of 16 MiB is long compared with the start of a
// copy. The comparison is then about schedules and not about overheads.

#include "bench/gpu/nominal_costs.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// Returns the forward time of a rank, which its virtual stages share.
Ns forward_of(GpuWorkload workload) {
  return workload == GpuWorkload::gemm || workload == GpuWorkload::imbalanced ? 5'000'000 : 2'000'000;
}

}  // namespace

std::string to_text(GpuWorkload workload) {
  switch (workload) {
    case GpuWorkload::occupy:
      return "occupy";
    case GpuWorkload::gemm:
      return "gemm";
    case GpuWorkload::imbalanced:
      return "gemm, imbalanced";
    case GpuWorkload::bandwidth:
      return "bandwidth";
  }
  return "";
}

StageCost nominal_cost(GpuWorkload workload, std::int32_t virtual_stages, bool first_half) {
  const Ns whole = forward_of(workload) / virtual_stages;
  const Ns forward = workload == GpuWorkload::imbalanced && first_half ? whole * 3 / 5 : whole;
  return {.forward_ns = forward,
          .backward_ns = 2 * forward,
          .backward_input_ns = forward,
          .backward_weight_ns = forward,
          .recompute_ns = forward,
          .kept = 1};
}

CostTable nominal_costs(const Program& program, GpuWorkload workload) {
  const std::int32_t stages = program.stage_count();
  const std::int32_t virtual_stages = stages / program.rank_count();
  CostTable costs = uniform_costs(program, {}, {.activation = kNominalMessage, .gradient = kNominalMessage});
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    costs.stages[static_cast<std::size_t>(stage)] =
        nominal_cost(workload, virtual_stages, stage < stages / 2);
  }
  return costs;
}

}  // namespace penstock
