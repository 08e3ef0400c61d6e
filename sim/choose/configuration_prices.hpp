#pragma once
// Computes the costs of a configuration's stages, and lower bounds of its time and memory. The costs of a
// layer are cached and used again for other configurations.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/quick_bounds.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// The costs of a configuration, in the form that the engines and the bounds need.
struct PricedConfiguration {
  std::vector<std::int64_t> layers{};  ///< number of layers of each stage
  CostTable costs;                     ///< costs of the stages, which form a chain
  UniformCluster links;
  std::string fault{};  ///< the message if times or bytes may exceed 64 bits; otherwise empty

  friend bool operator==(const PricedConfiguration&, const PricedConfiguration&) = default;
};

class ConfigurationPrices {
 public:
  /// Stores a reference to the request, which must outlive this object.
  explicit ConfigurationPrices(const TuneRequest& request);

  /// Returns lower bounds of the configuration's time and memory, without computing its costs. They never
  /// exceed those of lower_bounds(). Returns nothing if the sums come near the limit of 64 bits, because
  /// only the costs can then show a fault.
  std::optional<LowerBounds> quick_bounds(const Configuration& configuration, const ScheduleOutline& outline);

  /// Returns sharper bounds of a configuration with balanced layers, without its costs. Level layers are the
  /// split that balances only times. If they exceed the memory of all ranks together, no other split fits
  /// either. of() then uses the level layers (fitted_split()), so the result has the bounds for them. In all
  /// other cases, returns nothing. Requires that quick_bounds() has returned bounds.
  std::optional<LowerBounds> level_bounds(const Configuration& configuration, const ScheduleOutline& outline);

  /// Returns the costs of a configuration of the search space. `outline` must be the outline of its program
  /// and must outlive this object. A balanced layer split is balanced by price
  /// (prepare/balanced_split.hpp). If the result has a fault, its costs must not be used.
  PricedConfiguration of(const Configuration& configuration, const ScheduleOutline& outline);
  /// Returns the costs of a configuration, like the other of(), for given numbers of layers in each stage.
  PricedConfiguration of(const Configuration& configuration, const ScheduleOutline& outline,
                         std::vector<std::int64_t> layers);

 private:
  using LayerKey =
      std::tuple<std::int32_t, std::int32_t, ContextExchange, std::int32_t, std::int64_t, std::int32_t,
                 LayerRecompute, std::int32_t, std::int32_t, std::int64_t, std::int64_t>;

  /// The inputs of PartSums: the prices of layers, the degree of sharding, the number of copies, and true
  /// if one rank has both ends of the model.
  using PartKey = std::tuple<const LayerPrices*, std::int32_t, std::int32_t, bool>;

  /// An outline together with its extension to `microbatches` microbatches by outline_of_whole().
  struct WholeOutline {
    const ScheduleOutline* of = nullptr;
    std::int32_t microbatches = 0;
    ScheduleOutline outline{};
  };

  bool is_balanced(const Configuration& configuration, const ScheduleOutline& outline) const;
  const LayerPrices& layers_of(const Configuration& configuration);
  const PartSums& parts_of(const Configuration& configuration, const ScheduleOutline& outline);
  std::vector<std::int64_t> cut_of(const Configuration& configuration, const ScheduleOutline& outline);
  const ScheduleOutline& whole_of(const ScheduleOutline& outline, std::int32_t microbatches);

  const TuneRequest& request_;
  Workload work_;
  std::map<LayerKey, std::unique_ptr<const LayerPrices>> layers_;
  std::map<PartKey, PartSums> parts_;
  std::map<std::pair<std::size_t, std::int32_t>, std::vector<std::int64_t>> cuts_;
  /// The number of layers of each stage in balanced splits. The key is the prices of the layers and the
  /// rank of each stage.
  std::map<std::pair<const LayerPrices*, std::vector<std::int32_t>>, std::vector<std::int64_t>> level_;
  WholeOutline whole_;
};

/// Returns lower bounds of the step time and of the peak memory for `microbatches` microbatches. They never
/// exceed the figures that the engines find.
LowerBounds lower_bounds(const PricedConfiguration& priced, const ScheduleOutline& outline,
                         std::int32_t microbatches);

}  // namespace penstock
