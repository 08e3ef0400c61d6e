#pragma once
// Divides the layers of a model among its stages by their prices, for `layer_split: balanced`.

#include <cstdint>
#include <vector>

#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// One copy of a pipeline and the prices that are needed to divide its layers. The referenced objects must
/// outlive the task.
struct SplitTask {
  const Workload& work;  ///< the workload with all degrees and the microbatch size set
  const KernelTables& kernels;
  const LayerPrices& prices;  ///< the prices of the layers of `work`
  const ScheduleOutline& outline;
  std::int64_t microbatches = 1;  ///< the number of microbatches of one copy
};

/// Returns the number of layers of each stage. All ranks get nearly the same work for a microbatch and, if
/// possible, fit into the memory of their devices. Requires has_layers_for() for the outline's stages.
std::vector<std::int64_t> level_split(const SplitTask& task);

/// Like level_split(), but starts from `level`, which balances times only, and from the costs of its stages.
/// Returns `level` if these layers fit into memory, or if no layers are found that fit.
std::vector<std::int64_t> fitted_split(const SplitTask& task, std::vector<std::int64_t> level,
                                       const CostTable& level_costs);

/// Returns the number of layers of each stage with the shortest time that was found. The search starts from
/// level_split() and from other rules, and moves one layer at a time while that helps. It is deterministic
/// and tries a limited number of lists. `placed` must be placed_stages(schedule), possibly with loops instead
/// of lists. Requires has_layers_for() for its stages.
std::vector<std::int64_t> balanced_split(const Workload& work, const KernelTables& kernels,
                                         const StatedSchedule& schedule, const Program& placed);

}  // namespace penstock
