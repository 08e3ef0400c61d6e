#pragma once
// What a configuration's stages cost, from layers that are priced once for all configurations that share
// them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/tuning/configuration.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// A configuration as engines and bounds see it.
struct PricedConfiguration {
  CostTable costs;  ///< of a chain of stages
  UniformCluster links;
  std::string fault{};  ///< why its times and bytes do not add up in 64 bits; empty: they do

  friend bool operator==(const PricedConfiguration&, const PricedConfiguration&) = default;
};

class ConfigurationPrices {
 public:
  /// The request must outlive it.
  explicit ConfigurationPrices(const TuneRequest& request);

  /// `rank_of_stage` is where the schedule puts each model stage. Requires a configuration of the space.
  /// Where it has a fault, nothing may be made of its costs.
  PricedConfiguration of(const Configuration& configuration, std::span<const std::int32_t> rank_of_stage);

 private:
  using LayerKey = std::tuple<std::int32_t, std::int32_t, ContextExchange, std::int32_t, double, std::int32_t,
                              LayerRecompute, std::int32_t, std::int32_t, bool>;

  const LayerPrices& layers_of(const Configuration& configuration);
  const std::vector<std::int64_t>& cut_of(std::size_t layer_split, std::int32_t stages);

  const TuneRequest& request_;
  Workload work_;
  std::map<LayerKey, std::unique_ptr<const LayerPrices>> layers_;
  std::map<std::pair<std::size_t, std::int32_t>, std::vector<std::int64_t>> cuts_;
};

}  // namespace penstock
