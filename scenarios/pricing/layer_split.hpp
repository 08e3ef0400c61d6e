#pragma once
// Divides a model's layers among its stages.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The rule that divides layers among model stages in the model's order. Each virtual stage is a stage here.
struct LayerSplit {
  enum class Rule : std::uint8_t {
    unstated,       // `even` if the number of stages divides the number of layers, otherwise `balanced`
    even,           // equally many layers in each stage
    ends_one_less,  // embedding and head count as one layer each
    balanced,       // by the times and bytes of the layers
    listed,         // as stated in `counts`
  };
  Rule rule = Rule::unstated;
  /// The number of layers of each stage, for Rule::listed.
  std::vector<std::int64_t> counts{};
  /// The number of multi-token-prediction layers of each stage in a layout; empty if it has none. Then the
  /// last stage has those of the model.
  std::vector<std::int64_t> predictions{};

  friend bool operator==(const LayerSplit&, const LayerSplit&) = default;
};

/// Reads "even", "ends-one-less", "balanced", or a Megatron layout such as "Et*3|(tt|)*30,t*2L". In a layout
/// '|' separates stages, and commas and blanks have no meaning. E is the embedding, t a layer, m a
/// multi-token-prediction layer, and L the loss. "x*n" and "(..)*n" mean repetition. Error: a text that is
/// none of these, with the rule of Megatron-LM that a layout breaks.
tl::expected<LayerSplit, std::string> parse_layer_split(std::string_view text);
/// Returns the rule, the list, or the layout with multi-token-prediction layers as a scenario states it.
std::string to_text(const LayerSplit& split);
/// Returns the number of multi-token-prediction layers in a layout.
std::int64_t prediction_count(const LayerSplit& split);
/// Returns a listed split in Megatron-LM's notation: [3, 4, 3] is "Et*3|t*4|t*3L". If the split has no
/// multi-token-prediction layers, `on_last` of them are on the last stage.
std::string layout_of(const LayerSplit& split, std::int64_t on_last);

/// Returns the rule that applies to this number of layers and stages. It is the stated rule. If none is
/// stated, it is `even` if the number of stages divides the layers, and `balanced` otherwise.
LayerSplit::Rule rule_in_force(const LayerSplit& split, std::int64_t layers, std::int32_t stages);

/// Returns the number of layers of each stage. Requires that rule_in_force() is not `balanced`, because this
/// rule needs the costs of layers (prepare/balanced_split.hpp). Errors: the layers cannot be divided evenly;
/// stated counts do not add up to `layers`, or their number is not `stages`. The messages contain the
/// figures.
tl::expected<std::vector<std::int64_t>, std::string> split_layers(const LayerSplit& split,
                                                                  std::int64_t layers, std::int32_t stages);

// Divides layers among stages by their times, so that all ranks have nearly equal work. In contrast,
// prepare/balanced_split.hpp also simulates the schedule.

/// The seconds of the layers for one microbatch. Each is the sum of the forward and the backward time.
struct LayerTimes {
  /// Prefix sums. Entry i is the sum over all layers before layer i, and the last entry is the sum over all
  /// layers.
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

/// Returns true if there are enough layers for the stages. Each stage needs at least one layer. The first and
/// the last stage need none, because they have the embedding and the head.
bool has_layers_for(std::int64_t layers, std::int32_t stages);

/// Returns the number of layers of each stage. The longest stage is as short as possible. If ranks have
/// several stages, the times of the ranks are also as equal as possible. `most_of_rank` limits the layers of
/// each rank. If it is empty, there is no limit. Returns an empty list if the limits do not allow all layers.
/// Requires has_layers_for().
std::vector<std::int64_t> level_layers(const LayerTimes& times, std::span<const std::int32_t> rank_of_stage,
                                       std::span<const std::int64_t> most_of_rank);

}  // namespace penstock
