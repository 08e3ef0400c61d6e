// Prices vocabulary parallelism. The head is first priced as a stage of its own behind the K stages of
// layers. Then each rank gets 1/K of its time, weights, gradients and optimizer state:
//
//                 S (forward)             T (backward)            sent to the loss   received from it
//   vocab-1       logits / K              both gradients / K      maxima and sums    maxima and sums
//   vocab-2       logits and gradient     gradient of the         the same, and the  maxima and sums
//                 of the input / K        weights / K             input's gradient
//
// The last stage of layers sends its whole output to each slice. A rank holds this input and its part of the
// logits from S to T, where an undivided head holds the logits only while it runs. The maximum and the sum of
// a token have 4 bytes each. The embedding stays on the first rank. Tested by output_slices_test.cpp.

#include "scenarios/pricing/layer_split.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/rules/extra_stages.hpp"

namespace penstock {

namespace {

/// Returns the bytes of the softmax maxima and sums of all tokens of a microbatch.
double statistics_bytes(const Workload& work) {
  constexpr double kBytesOfToken = 8;
  return kBytesOfToken * work.tokens();
}

ComputeSeconds share_of(const ComputeSeconds& whole, double share) {
  return {.forward_s = whole.forward_s * share, .backward_s = whole.backward_s * share};
}

/// Returns the times and bytes of one slice of the output head. The slice has the given share of the head's
/// computation and weights. `input_bytes` is the size of the head's input.
StagePrice slice_of(const StagePrice& head, const Workload& work, double share, double input_bytes) {
  const double held = head_transient_bytes(work);
  StagePrice slice = head;
  slice.forward_s *= share;
  slice.backward_input_s *= share;
  slice.backward_weight_s *= share;
  slice.shown = {.gathered_s = head.shown.gathered_s * share,
                 .gathered_again_s = head.shown.gathered_again_s * share,
                 .scattered_s = head.shown.scattered_s * share,
                 .hidden_again_s = head.shown.hidden_again_s * share};
  slice.compute = share_of(head.compute, share);
  slice.last_compute = share_of(head.last_compute, share);
  slice.kept_bytes = input_bytes + held * share;
  slice.transient_bytes = std::max(0.0, head.transient_bytes - held);
  slice.edge_bytes = statistics_bytes(work);
  slice.weight_bytes *= share;
  slice.gradient_bytes *= share;
  slice.optimizer_bytes *= share;
  slice.deferred_s *= share;
  slice.deferred_bytes *= share;
  slice.parameters = {.dense = head.parameters.dense * share, .expert = head.parameters.expert * share};
  slice.updated_parameters *= share;
  return slice;
}

/// Moves the time of the input's gradient from the slice's backward pass (T) to its forward pass (S). The
/// slice then also sends this gradient after S.
void compute_input_gradient_in_forward(StagePrice& slice, double input_bytes) {
  slice.forward_s += slice.backward_input_s;
  slice.backward_input_s = 0;
  slice.edge_bytes += input_bytes;
}

}  // namespace

tl::expected<CostTable, std::string> sliced_output_costs(const Workload& work, const KernelTables& kernels,
                                                         std::span<const std::int64_t> layers,
                                                         std::span<const std::int32_t> rank_of_stage,
                                                         std::int64_t microbatches, ExtraStages extra) {
  return sliced_output_costs(work, kernels, layer_prices_of_kinds(work, kernels), layers, rank_of_stage,
                             microbatches, extra);
}

// NOLINTNEXTLINE(readability-function-size): prices, kernels and the cut are inputs of their own
tl::expected<CostTable, std::string> sliced_output_costs(const Workload& work, const KernelTables& kernels,
                                                         std::span<const LayerPrices> of_kinds,
                                                         std::span<const std::int64_t> layers,
                                                         std::span<const std::int32_t> rank_of_stage,
                                                         std::int64_t microbatches, ExtraStages extra) {
  if (work.model.multi_token > 0) {
    return tl::unexpected(std::string(
        "model.multi_token: the schedule divides one output layer over the ranks, and layers of multi-token "
        "prediction have further ones; set it to 0 or take 1f1b"));
  }
  const std::size_t ranks = layers.size();
  std::vector<std::int64_t> with_head(layers.begin(), layers.end());
  with_head.push_back(0);
  std::vector<std::int32_t> ranks_with_head(rank_of_stage.begin(),
                                            rank_of_stage.begin() + static_cast<std::ptrdiff_t>(ranks));
  ranks_with_head.push_back(rank_of_stage.back());
  std::vector<StagePrice> prices = price_stages(work, of_kinds, with_head, ranks_with_head);
  const StagePrice head = prices.back();
  prices.pop_back();
  const double input_bytes = prices.back().edge_bytes;
  StagePrice slice = slice_of(head, work, 1.0 / static_cast<double>(ranks), input_bytes);
  if (extra == ExtraStages::output_slices_inputs) compute_input_gradient_in_forward(slice, input_bytes);
  prices.insert(prices.end(), ranks, slice);
  prices.push_back({});
  const RankStep step = longest_step(work, kernels, prices, rank_of_stage);
  if (const auto fault = chain_fault(prices, step, microbatches)) return tl::unexpected(*fault);
  CostTable costs = chain_costs(prices, rank_of_stage, step, microbatches);
  // The loss sends only maxima and sums back.
  const auto statistics = static_cast<Bytes>(std::llround(statistics_bytes(work)));
  for (EdgeCost& edge : std::span(costs.edges).last(ranks)) edge.gradient = statistics;
  return costs;
}

std::vector<std::int64_t> nearly_even_layers(std::int64_t layers, std::int32_t stages) {
  std::vector<std::int64_t> parts;
  parts.reserve(static_cast<std::size_t>(stages));
  for (std::int64_t stage = 0; stage < stages; ++stage)
    parts.push_back(layers / stages + (stage >= stages - layers % stages ? 1 : 0));
  return parts;
}

}  // namespace penstock
