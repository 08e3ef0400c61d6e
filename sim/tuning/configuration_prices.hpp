#pragma once
// The costs of a configuration's stages. Each layer is priced once for all configurations that share its
// price.

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

/// The costs of a configuration, as the engines and the bounds take them.
struct PricedConfiguration {
  std::vector<std::int64_t> layers{};  ///< number of layers of each stage
  CostTable costs;                     ///< costs of a chain of stages
  UniformCluster links;
  std::string fault{};  ///< why its times or bytes exceed 64 bits; empty if they do not

  friend bool operator==(const PricedConfiguration&, const PricedConfiguration&) = default;
};

class ConfigurationPrices {
 public:
  /// Keeps a reference to the request, which must outlive this object.
  explicit ConfigurationPrices(const TuneRequest& request);

  /// Prices a configuration of the space. `outline` must be that of its schedule. Balanced layers are
  /// balanced by price (prepare/balanced_split.hpp). If the result has a fault, its costs must not be used.
  PricedConfiguration of(const Configuration& configuration, const ScheduleOutline& outline);
  /// Like the other of(), with the given number of layers of each stage.
  PricedConfiguration of(const Configuration& configuration, const ScheduleOutline& outline,
                         std::vector<std::int64_t> layers);

 private:
  using LayerKey =
      std::tuple<std::int32_t, std::int32_t, ContextExchange, std::int32_t, std::int64_t, std::int32_t,
                 LayerRecompute, std::int32_t, std::int32_t, std::int64_t, std::int64_t>;

  const LayerPrices& layers_of(const Configuration& configuration);
  std::vector<std::int64_t> cut_of(const Configuration& configuration, const ScheduleOutline& outline);

  const TuneRequest& request_;
  Workload work_;
  std::map<LayerKey, std::unique_ptr<const LayerPrices>> layers_;
  std::map<std::pair<std::size_t, std::int32_t>, std::vector<std::int64_t>> cuts_;
  /// Numbers of layers that balance the prices. The key is the prices of a layer, and the stages of each
  /// rank.
  std::map<std::pair<const LayerPrices*, std::vector<std::int32_t>>, std::vector<std::int64_t>> level_;
};

}  // namespace penstock
