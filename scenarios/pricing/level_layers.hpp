#pragma once
// Divides layers among stages by their prices, so that all ranks have nearly equal work. In contrast,
// prepare/balanced_split.hpp also simulates the schedule.

#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The seconds of one microbatch. Forward and backward count together.
struct LayerTimes {
  /// The sums over the first layers. Entry i is the sum over all layers before layer i, and the last entry
  /// the sum over all layers.
  std::vector<double> before{};
  /// The time of the embedding before the first layer.
  double embedding = 0;
  /// The time of the head after the last layer, including layers of multi-token prediction.
  double head = 0;
};
/// Returns the times of all layers.
LayerTimes layer_times(const Workload& work, const LayerPrices& prices);

/// Returns the seconds of each rank for one microbatch. `layers` has the number of layers of each stage.
std::vector<double> rank_times(const LayerTimes& times, std::span<const std::int64_t> layers,
                               std::span<const std::int32_t> rank_of_stage);

/// Returns true if the layers suffice for the stages. Each stage needs at least one layer, except for the
/// first and the last stage, which have the embedding and the head.
bool has_layers_for(std::int64_t layers, std::int32_t stages);

/// Returns the number of layers of each stage, such that the longest stage is as short as possible. If ranks
/// have several stages, it also makes the ranks equal. `most_of_rank` limits the layers of each rank, and an
/// empty list means no limit. Returns an empty list if the limits exclude some layers. Requires
/// has_layers_for().
std::vector<std::int64_t> level_layers(const LayerTimes& times, std::span<const std::int32_t> rank_of_stage,
                                       std::span<const std::int64_t> most_of_rank);

}  // namespace penstock
