#pragma once
// The division of layers among stages by their prices, so that all ranks have nearly the same work.
// prepare/balanced_split.hpp also simulates the schedule.

#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The seconds of one microbatch, forward and backward.
struct LayerTimes {
  /// The sum of all layers before each layer, and after it the sum of all layers.
  std::vector<double> before{};
  /// The time of the embedding before the first layer.
  double embedding = 0;
  /// The time of the head after the last layer, including layers of multi-token prediction.
  double head = 0;
};
/// Returns the times of all layers.
LayerTimes layer_times(const Workload& work, const LayerPrices& prices);

/// Returns the seconds of each rank's work on one microbatch if stages have `layers`.
std::vector<double> rank_times(const LayerTimes& times, std::span<const std::int64_t> layers,
                               std::span<const std::int32_t> rank_of_stage);

/// Returns true if that many stages can be given layers. Each stage needs at least one, except for the first
/// and the last one, which have the embedding and the head.
bool has_layers_for(std::int64_t layers, std::int32_t stages);

/// Returns the layers of each stage, such that the longest stage is as short as possible. If a rank has
/// several stages, the ranks are made equal. `most_of_rank` limits the layers of each rank; empty means no
/// limit. Returns nothing if the limits do not allow all layers. Requires has_layers_for().
std::vector<std::int64_t> level_layers(const LayerTimes& times, std::span<const std::int32_t> rank_of_stage,
                                       std::span<const std::int64_t> most_of_rank);

}  // namespace penstock
