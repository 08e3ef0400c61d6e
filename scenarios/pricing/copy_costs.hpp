#pragma once
// Computes the costs of one copy of a pipeline on its devices. Used by prepare/device_prices.cpp.
//
//   layers of a stage -> prices of a microbatch -> prices of a rank's step -> F, I, W, STEP and their memory

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// Returns the costs of the stages. `layers` has the number of layers of each stage, and `rank_of_stage` its
/// rank. Requires that both have equal lengths, and that the layers add up to the layers of the model. Error:
/// a figure that does not fit in 64 bits.
tl::expected<CostTable, std::string> copy_costs(const Workload& work, const KernelTables& kernels,
                                                std::span<const std::int64_t> layers,
                                                std::span<const std::int32_t> rank_of_stage,
                                                std::int64_t microbatches);

}  // namespace penstock
