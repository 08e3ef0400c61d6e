#pragma once
// Computes the prices of the stages of a pipeline whose output layer is divided over its ranks (vocabulary
// parallelism, schedules/rules/vocabulary.cpp).

#include <cstdint>
#include <span>
#include <string>

#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/rules/extra_stages.hpp"

namespace penstock {

/// Returns the costs of all 2K + 1 stages, like copy_costs(). `layers` has the number of layers of the first
/// K stages, and `rank_of_stage` has the rank of each stage. Each edge has the bytes that leave its stage.
/// Requires extra stages. Error: a figure that does not fit in 64 bits; layers of multi-token prediction,
/// which have output layers of their own.
tl::expected<CostTable, std::string> sliced_output_costs(const Workload& work, const KernelTables& kernels,
                                                         std::span<const std::int64_t> layers,
                                                         std::span<const std::int32_t> rank_of_stage,
                                                         std::int64_t microbatches, ExtraStages extra);

}  // namespace penstock
