#pragma once
// Finds the costs of a configuration's stages, and lower bounds of its time and memory. A layer is priced
// once for all configurations in which it has the same price.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/choose/configuration.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// The costs of a configuration, in the form that the engines and the bounds need.
struct PricedConfiguration {
  std::vector<std::int64_t> layers{};  ///< number of layers of each stage
  CostTable costs;                     ///< costs of a chain of stages
  UniformCluster links;
  std::string fault{};  ///< the reason why its times or bytes exceed 64 bits; empty if they do not

  friend bool operator==(const PricedConfiguration&, const PricedConfiguration&) = default;
};

class ConfigurationPrices {
 public:
  /// Stores a reference to the request, which must outlive this object.
  explicit ConfigurationPrices(const TuneRequest& request);

  /// Returns the costs of a configuration of the space. `outline` must be that of its program. Balanced
  /// layers are balanced by price (prepare/balanced_split.hpp). If the result has a fault, its costs must not
  /// be used.
  PricedConfiguration of(const Configuration& configuration, const ScheduleOutline& outline);
  /// Like the other of(), but the caller gives the number of layers of each stage.
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
  /// Numbers of layers for balanced stages. The key is the prices of a layer and the rank of each stage.
  std::map<std::pair<const LayerPrices*, std::vector<std::int32_t>>, std::vector<std::int64_t>> level_;
};

struct LowerBounds {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< lower bound of the peak of the fullest rank
};

/// Returns bounds that never exceed the figures of the engines for this number of microbatches.
LowerBounds lower_bounds(const PricedConfiguration& priced, const ScheduleOutline& outline,
                         std::int32_t microbatches);

}  // namespace penstock
