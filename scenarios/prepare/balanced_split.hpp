#pragma once
// Which layers each stage has where `layer_split: balanced` leaves that to the prices.

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

/// A copy of a pipeline whose layers are to be shared out. What it refers to must outlive it.
struct SplitTask {
  const Workload& work;  ///< with its degrees and its microbatch settled
  const KernelTables& kernels;
  const LayerPrices& prices;  ///< of that workload
  const ScheduleOutline& outline;
  std::int64_t microbatches = 1;  ///< of one copy
};

/// Returns the layers of each stage such that ranks have nearly the same work on a microbatch and, where that
/// can be, fit their devices' memory. Requires has_layers_for() the outline's stages.
std::vector<std::int64_t> level_split(const SplitTask& task);

/// Returns the same from layers that are level by price alone, with what their stages cost: these layers
/// where they fit, and where nothing does.
std::vector<std::int64_t> fitted_split(const SplitTask& task, std::vector<std::int64_t> level,
                                       const CostTable& level_costs);

/// Returns the layers of each stage that take least, of those that are reached from level_split() and from
/// what other rules give, by moving one layer at a time while that helps. Equal questions have equal answers;
/// how many lists are tried is bounded. Requires has_layers_for() the stages of `placed`, which is
/// placed_stages(schedule) or the same with loops in the place of lists.
std::vector<std::int64_t> balanced_split(const Workload& work, const KernelTables& kernels,
                                         const StatedSchedule& schedule, const Program& placed);

}  // namespace penstock
