#pragma once
// What one copy of a pipeline costs on its devices. Used by prepare/device_prices.cpp.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// `layers` has the layers of each stage, `rank_of_stage` where each is. Requires as many of one as of the
/// other, and that the layers are the model's. Error: what 64 bits cannot count.
tl::expected<CostTable, std::string> copy_costs(const Workload& work, const KernelTables& kernels,
                                                std::span<const std::int64_t> layers,
                                                std::span<const std::int32_t> rank_of_stage,
                                                std::int64_t microbatches);

}  // namespace penstock
