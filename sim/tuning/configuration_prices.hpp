#pragma once
// What a configuration's stages cost, from layers that are priced once for all configurations that share
// them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/tuning/configuration.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// A configuration as engines and bounds see it.
struct PricedConfiguration {
  std::vector<std::int64_t> layers{};  ///< by stage
  CostTable costs;                     ///< of a chain of stages
  UniformCluster links;
  std::string fault{};  ///< why its times and bytes do not add up in 64 bits; empty: they do

  friend bool operator==(const PricedConfiguration&, const PricedConfiguration&) = default;
};

class ConfigurationPrices {
 public:
  /// The request must outlive it.
  explicit ConfigurationPrices(const TuneRequest& request);

  /// Prices a configuration of the space, whose schedule has the outline. Layers that are balanced are level
  /// by price (prepare/balanced_split.hpp). Where the answer has a fault, nothing may be made of its costs.
  PricedConfiguration of(const Configuration& configuration, const ScheduleOutline& outline);
  /// Prices it with these layers of each stage.
  PricedConfiguration of(const Configuration& configuration, const ScheduleOutline& outline,
                         std::vector<std::int64_t> layers);

 private:
  using LayerKey = std::tuple<std::int32_t, std::int32_t, ContextExchange, std::int32_t, double, std::int32_t,
                              LayerRecompute, std::int32_t, std::int32_t, bool>;

  const LayerPrices& layers_of(const Configuration& configuration);
  std::vector<std::int64_t> cut_of(const Configuration& configuration, const ScheduleOutline& outline);

  const TuneRequest& request_;
  Workload work_;
  std::map<LayerKey, std::unique_ptr<const LayerPrices>> layers_;
  std::map<std::pair<std::size_t, std::int32_t>, std::vector<std::int64_t>> cuts_;
  /// Layers that are level by price, by their prices and where stages are.
  std::map<std::pair<const LayerPrices*, std::vector<std::int32_t>>, std::vector<std::int64_t>> level_;
};

}  // namespace penstock
