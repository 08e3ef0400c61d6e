// A stage is its layers, with the embedding before the first and the head behind the last:
//
//   time = sum of its terms         bytes kept = sum over its layers       weights = those of its layers and
//   ends
//
// Once a step the copies of a rank reduce their gradients and gather the weights that each has updated its
// part of (Rajbhandari et al., SC'20, section 5). Of both, 1/v stays exposed when they run beside the other
// passes (v chunks: the first chunk's gradients are complete last), and over the network a part of the whole
// reduction besides. The optimizer reads and writes its share once: weights in 4 bytes and two moments,
// gradients, new weights.

#include "scenarios/pricing/stage_prices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {
namespace {

constexpr double kOptimizerLaunchSeconds = 0.3e-3;
/// Beside the state, read and written, a parameter moves its gradient (4), its weight (2), and both again (4
/// + 4).
constexpr double kOptimizerOtherBytes = 4 + 2 + 4 + 4;
constexpr double kGatheredBytes = 2;

/// Terms of the kinds of layers that a model has, each priced once.
class LayerPrices {
 public:
  LayerPrices(const Workload& work, const KernelTables& kernels) : work_(work), kernels_(kernels) {}

  const std::vector<Term>& of(const LayerKind& kind) {
    const auto key = std::pair(kind.has_experts, kind.window);
    auto found = terms_.find(key);
    if (found == terms_.end()) found = terms_.emplace(key, layer_terms(work_, kernels_, kind)).first;
    return found->second;
  }

 private:
  const Workload& work_;
  const KernelTables& kernels_;
  std::map<std::pair<bool, std::int64_t>, std::vector<Term>> terms_;
};

std::string name_of(const LayerKind& kind) {
  std::string name = kind.has_experts ? "expert layer" : "dense layer";
  if (kind.window > 0) name += ", sliding";
  return name;
}

void add_times(StagePrice& stage, const PricedLayers& part) {
  const Term sum = total_of(part.terms);
  const auto count = static_cast<double>(part.count);
  stage.forward_s += count * sum.forward;
  stage.backward_input_s += count * sum.backward_input;
  stage.backward_weight_s += count * sum.backward_weight;
}

void add_part(StagePrice& stage, std::string name, const std::vector<Term>& terms) {
  add_times(stage, {.name = name, .count = 1, .terms = terms});
  const auto same = std::ranges::find(stage.layers, name, &PricedLayers::name);
  if (same != stage.layers.end()) {
    ++same->count;
  } else {
    stage.layers.push_back({.name = std::move(name), .count = 1, .terms = terms});
  }
}

void add_layer(StagePrice& stage, const Workload& work, LayerPrices& prices, const LayerKind& kind) {
  add_part(stage, name_of(kind), prices.of(kind));
  stage.kept_bytes += kept_bytes(work, kind);
  stage.transient_bytes = std::max(stage.transient_bytes, layer_transient_bytes(work, kind));
  stage.parameters += layer_device_parameters(work, kind);
}

void add_head(StagePrice& stage, const Workload& work, const KernelTables& kernels, bool beside_embedding) {
  for (std::int64_t i = 0; i < work.model.multi_token; ++i) {
    add_part(stage, "multi-token prediction", multi_token_terms(work, kernels));
    stage.kept_bytes += kept_bytes(work, work.model.layers.back());
    stage.parameters += multi_token_device_parameters(work);
  }
  add_part(stage, "head", head_terms(work, kernels));
  stage.parameters += head_device_parameters(work, beside_embedding);
  stage.transient_bytes = std::max(stage.transient_bytes, head_transient_bytes(work));
}

/// Bytes of weights: norms, embedding and head stay in 2 bytes, which only 8 bit weights would notice.
void add_static_bytes(StagePrice& stage, const Workload& work, double ends) {
  const DeviceParameters& own = stage.parameters;
  stage.weight_bytes = weight_bytes(work) * (own.total() - ends) + kGatheredBytes * ends;
  stage.gradient_bytes = work.gradient_bytes * own.total();
  const Parallel& parallel = work.parallel;
  const double dense_parts = parallel.distributed_optimizer ? parallel.weight_copies() : 1;
  const double expert_parts = parallel.distributed_optimizer ? parallel.expert_copies() : 1;
  stage.optimizer_bytes = work.optimizer_bytes * (own.dense / dense_parts + own.expert / expert_parts);
}

std::int32_t stages_on(std::span<const std::int32_t> rank_of_stage, std::int32_t rank) {
  return static_cast<std::int32_t>(std::ranges::count(rank_of_stage, rank));
}

/// A collective of the copies of a weight.
double copies_seconds(const Workload& work, const KernelTables& kernels, std::int32_t copies,
                      GroupOperation operation, double bytes) {
  if (copies <= 1 || bytes <= 0) return 0;
  if (is_on_nvlink(work.parallel, work.ranks, DeviceGroup::data, work.device)) {
    if (const auto measured = kernels.collective_seconds(operation, copies, bytes)) return *measured;
  }
  const double n = copies;
  const double passes = operation == GroupOperation::all_reduce ? 2 : 1;
  return passes * (n - 1) / n * bytes / link_bytes_per_second(work, DeviceGroup::data);
}

double of_both(const Workload& work, const KernelTables& kernels, GroupOperation operation,
               const DeviceParameters& parameters, double bytes) {
  return copies_seconds(work, kernels, work.parallel.weight_copies(), operation, bytes * parameters.dense) +
         copies_seconds(work, kernels, work.parallel.expert_copies(), operation, bytes * parameters.expert);
}

double reduction_seconds(const Workload& work, const KernelTables& kernels,
                         const DeviceParameters& parameters, std::int32_t chunks) {
  const Parallel& parallel = work.parallel;
  const bool scatters = parallel.distributed_optimizer;
  const double reduce_s =
      of_both(work, kernels, scatters ? GroupOperation::reduce_scatter : GroupOperation::all_reduce,
              parameters, work.gradient_bytes);
  const double gathered = work.precision == GemmPrecision::bf16 ? kGatheredBytes : 1;
  const double gather_s =
      scatters ? of_both(work, kernels, GroupOperation::all_gather, parameters, gathered) : 0;
  if (!parallel.data_overlap) return reduce_s + gather_s;
  const bool over_network = !is_on_nvlink(parallel, work.ranks, DeviceGroup::data, work.device);
  return (reduce_s + gather_s) / chunks + (over_network ? work.device.step_fraction * reduce_s : 0);
}

}  // namespace

std::vector<StagePrice> price_stages(const Workload& work, const KernelTables& kernels,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage) {
  const std::size_t stages = layers.size();
  std::vector<StagePrice> prices(stages);
  LayerPrices layer_prices(work, kernels);
  std::map<std::int32_t, WeightShapes> shapes;
  std::size_t next = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    StagePrice& stage = prices[i];
    for (std::int64_t n = 0; n < layers[i]; ++n, ++next) {
      const LayerKind& kind = work.model.layers[next];
      add_layer(stage, work, layer_prices, kind);
      shapes[rank_of_stage[i]].merge(weight_shapes(work, kind));
    }
    double ends = 0;
    const double before = stage.parameters.dense;
    if (i == 0) stage.parameters += embedding_device_parameters(work);
    if (i + 1 == stages) {
      add_head(stage, work, kernels, rank_of_stage.front() == rank_of_stage.back());
    } else {
      stage.edge_bytes = 2 * work.tokens() * static_cast<double>(work.model.hidden) / work.parallel.tensor;
    }
    ends = stage.parameters.dense - before;
    add_static_bytes(stage, work, ends);
  }
  for (std::size_t i = 0; i < stages; ++i) {
    prices[i].transient_bytes += placeholder_bytes(shapes[rank_of_stage[i]]) + kOtherBytes;
  }
  return prices;
}

RankStep price_step(const Workload& work, const KernelTables& kernels, const DeviceParameters& parameters,
                    std::int32_t chunks) {
  const Parallel& parallel = work.parallel;
  const double dense_parts = parallel.distributed_optimizer ? parallel.weight_copies() : 1;
  const double expert_parts = parallel.distributed_optimizer ? parallel.expert_copies() : 1;
  const double share = parameters.dense / dense_parts + parameters.expert / expert_parts;
  const double bytes =
      share * (2.0 * work.optimizer_bytes + kOptimizerOtherBytes) + parameters.total() * work.gradient_bytes;
  const DeviceType& device = work.device;
  return {.reduction_s = reduction_seconds(work, kernels, parameters, chunks),
          .optimizer_s =
              bytes / (device.memory_efficiency * device.memory_bytes_per_second) + kOptimizerLaunchSeconds};
}

RankStep longest_step(const Workload& work, const KernelTables& kernels, std::span<const StagePrice> stages,
                      std::span<const std::int32_t> rank_of_stage) {
  std::map<std::int32_t, DeviceParameters> held;
  for (std::size_t i = 0; i < stages.size(); ++i) held[rank_of_stage[i]] += stages[i].parameters;
  RankStep longest;
  for (const auto& [rank, parameters] : held) {
    const RankStep step = price_step(work, kernels, parameters, stages_on(rank_of_stage, rank));
    if (step.total_s() > longest.total_s()) longest = step;
  }
  return longest;
}

}  // namespace penstock
