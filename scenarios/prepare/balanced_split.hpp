#pragma once
// Divides the layers of a model among its stages, so that ranks have nearly equal work. `layer_split:
// balanced` uses it.

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

/// The input for dividing the layers of one pipeline copy among its stages. The objects to which it refers
/// must outlive it.
struct SplitTask {
  const Workload& work;  ///< the workload with all degrees and the microbatch size set
  const KernelTables& kernels;
  const LayerPrices& prices;  ///< the times and bytes of the layers of `work`
  const ScheduleOutline& outline;
  std::int64_t microbatches = 1;  ///< the number of microbatches of one copy
};

/// Returns the number of layers of each stage. All ranks get nearly the same work for a microbatch. If
/// possible, the layers of each rank also fit into the memory of its devices. Requires has_layers_for() for
/// the outline's stages.
std::vector<std::int64_t> level_split(const SplitTask& task);

/// Like level_split(), but starts from a given split. `level` is a split that balances only times, and
/// `level_costs` are the costs of its stages. Returns `level` if it fits into memory, or if no split that
/// fits is found.
std::vector<std::int64_t> fitted_split(const SplitTask& task, std::vector<std::int64_t> level,
                                       const CostTable& level_costs);

/// Returns the number of layers of each stage for the shortest time that was found. The search starts from
/// level_split() and from the splits of other rules. It moves one layer at a time as long as the time becomes
/// shorter. It is deterministic and tries a limited number of splits. `placed` must be
/// placed_stages(schedule), possibly with loops instead of lists. Requires has_layers_for() for its stages.
std::vector<std::int64_t> balanced_split(const Workload& work, const KernelTables& kernels,
                                         const StatedSchedule& schedule, const Program& placed);

}  // namespace penstock
