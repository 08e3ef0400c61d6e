
#include "scenarios/pricing/copy_costs.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/step_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

tl::expected<CostTable, std::string> copy_costs(const Workload& work, const KernelTables& kernels,
                                                std::span<const std::int64_t> layers,
                                                std::span<const std::int32_t> rank_of_stage,
                                                std::int64_t microbatches) {
  const std::vector<StagePrice> prices = price_stages(work, kernels, layers, rank_of_stage);
  const RankStep step = longest_step(work, kernels, prices, rank_of_stage);
  if (const auto fault = chain_fault(prices, step, microbatches)) return tl::unexpected(*fault);
  return chain_costs(prices, rank_of_stage, step, microbatches);
}

}  // namespace penstock
