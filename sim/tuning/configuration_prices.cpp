// A space has thousands of configurations and a few hundred ways in which a layer is shared out:
//
//   tensor, context and its exchange, experts and where their group lies, microbatch, recomputation
//
// and, where copies share out gradients, how many there are and where they lie. A layer is priced for each of
// those; a configuration adds up its stages' layers and its step.

#include "sim/tuning/configuration_prices.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/step_prices.hpp"
#include "sim/tuning/configuration.hpp"

namespace penstock {

ConfigurationPrices::ConfigurationPrices(const TuneRequest& request)
    : request_(request), work_(model_of(request).work) {}

// Requires that work_ has the configuration's choices. On how many NVLink domains a group is depends on
// all degrees and the stages, and is all that a layer's price knows of most of them.
const LayerPrices& ConfigurationPrices::layers_of(const Configuration& configuration) {
  const double domains = expert_domains(work_.parallel, work_.ranks, work_.device);
  const bool shares = configuration.sharding > 1;
  const bool near_copies = is_on_nvlink(work_.parallel, work_.ranks, DeviceGroup::data, work_.device);
  const LayerKey key(configuration.tensor, configuration.context, configuration.context_exchange,
                     configuration.expert, domains, configuration.micro_batch_size, configuration.recompute,
                     shares ? configuration.sharding : 0, shares ? configuration.data : 0,
                     shares && near_copies);
  auto& known = layers_[key];
  if (!known) known = std::make_unique<const LayerPrices>(work_, *model_of(request_).kernels);
  return *known;
}

const std::vector<std::int64_t>& ConfigurationPrices::cut_of(std::size_t layer_split, std::int32_t stages) {
  const auto [known, fresh] = cuts_.try_emplace({layer_split, stages});
  if (fresh) {
    const auto layers = static_cast<std::int64_t>(work_.model.layers.size());
    known->second = split_layers(request_.layer_splits[layer_split], layers, stages).value();
  }
  return known->second;
}

// What prepare() makes of the configuration's scenario; a test holds the two together, to the nanosecond.
PricedConfiguration ConfigurationPrices::of(const Configuration& configuration,
                                            std::span<const std::int32_t> rank_of_stage) {
  set_choices(work_, configuration);
  const auto stages = static_cast<std::int32_t>(rank_of_stage.size());
  const std::vector<StagePrice> prices =
      price_stages(work_, layers_of(configuration), cut_of(configuration.layer_split, stages), rank_of_stage);
  const RankStep step = longest_step(work_, *model_of(request_).kernels, prices, rank_of_stage);
  PricedConfiguration priced{.costs = chain_costs(prices, rank_of_stage, step, configuration.microbatches),
                             .links = links_between_stages(work_)};
  priced.costs.launch = request_.base.launch;
  return priced;
}

}  // namespace penstock
