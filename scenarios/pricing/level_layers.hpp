#pragma once
// Which layers each stage gets so that all ranks have nearly the same work, by the prices of layers alone.
// What a schedule makes of that is looked at in prepare/balanced_split.hpp.

#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Seconds of one microbatch, forward and backward.
struct LayerTimes {
  std::vector<double> before{};  ///< by layer, and one more: the sum of all layers before it
  double embedding = 0;          ///< in front of the first layer
  double head = 0;               ///< behind the last one, with layers of multi-token prediction
};
LayerTimes layer_times(const Workload& work, const LayerPrices& prices);

/// Returns the work of each rank on one microbatch, in seconds, where stages have `layers`.
std::vector<double> rank_times(const LayerTimes& times, std::span<const std::int64_t> layers,
                               std::span<const std::int32_t> rank_of_stage);

/// Returns true where so many stages can be given layers: each has one at least, but for the first and the
/// last one, which have the embedding and the head.
bool has_layers_for(std::int64_t layers, std::int32_t stages);

/// Returns the layers of each stage, such that the longest stage is as short as can be, and of several stages
/// on a rank the ranks are level. `most_of_rank` bounds the layers of a rank; empty: nothing does. Requires
/// has_layers_for(). Returns nothing where the bounds leave no room for all layers.
std::vector<std::int64_t> level_layers(const LayerTimes& times, std::span<const std::int32_t> rank_of_stage,
                                       std::span<const std::int64_t> most_of_rank);

}  // namespace penstock
