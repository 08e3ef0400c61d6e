#pragma once
// Divides a model's layers among its stages.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/rules/extra_stages.hpp"

namespace penstock {

/// The rule that divides the layers among the model stages, in the model's order. If a rank has several
/// chunks, each chunk is one of these stages.
struct LayerSplit {
  enum class Rule : std::uint8_t {
    unstated,       // `even` if the number of stages divides the number of layers, otherwise `balanced`
    even,           // equally many layers in each stage
    ends_one_less,  // embedding and head count as one layer each
    balanced,       // the split follows from the times and bytes of the layers
    listed,         // the split is stated in `counts`
  };
  Rule rule = Rule::unstated;
  /// The number of layers of each stage, for Rule::listed.
  std::vector<std::int64_t> counts{};
  /// The number of multi-token-prediction layers of each stage, if a layout places them. If it is empty,
  /// the last stage has all of the model's multi-token-prediction layers.
  std::vector<std::int64_t> predictions{};

  friend bool operator==(const LayerSplit&, const LayerSplit&) = default;
};

/// Reads "even", "ends-one-less", "balanced", or a Megatron layout such as "Et*3|(tt|)*30,t*2L". In a
/// layout '|' separates stages, and commas and blanks have no meaning. E is the embedding, t a layer, m a
/// multi-token-prediction layer, and L the loss. "x*n" and "(..)*n" mean repetition. Returns an error if
/// the text is none of these. If a layout breaks a rule of Megatron-LM, the error names this rule.
tl::expected<LayerSplit, std::string> parse_layer_split(std::string_view text);
/// Returns the split as a scenario states it: the name of the rule, the list of counts, or a layout. The
/// result is a layout if the split places multi-token-prediction layers.
std::string to_text(const LayerSplit& split);
/// Returns the number of multi-token-prediction layers in a layout.
std::int64_t prediction_count(const LayerSplit& split);
/// Returns a listed split as a layout in Megatron-LM's notation: [3, 4, 3] is "Et*3|t*4|t*3L". If the split
/// places no multi-token-prediction layers, the last stage gets `on_last` of them.
std::string layout_of(const LayerSplit& split, std::int64_t on_last);

/// Returns the stated rule. If no rule is stated, returns `even` if the number of layers is divisible by
/// the number of stages, and `balanced` otherwise.
LayerSplit::Rule rule_in_force(const LayerSplit& split, std::int64_t layers, std::int32_t stages);

/// Returns the number of layers of each stage. Requires that rule_in_force() is not `balanced`, because this
/// rule needs the costs of layers (prepare/balanced_split.cpp). Returns an error if the layers cannot be
/// divided evenly. Also returns an error if stated counts do not add up to `layers`, or if their number is
/// not `stages`.
tl::expected<std::vector<std::int64_t>, std::string> split_layers(const LayerSplit& split,
                                                                  std::int64_t layers, std::int32_t stages);

// Divides layers among stages by their times, so that all ranks have nearly equal work. In contrast,
// prepare/balanced_split.cpp also simulates the schedule.

/// The seconds of a model's layers for one microbatch. Each value is the sum of the forward and backward
/// times.
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

/// Returns the seconds that each rank computes for one microbatch. `layers` has the number of layers of
/// each stage.
std::vector<double> rank_times(const LayerTimes& times, std::span<const std::int64_t> layers,
                               std::span<const std::int32_t> rank_of_stage);

/// Returns true if there are enough layers for the stages. Each stage needs at least one layer, except for
/// the first and the last one, which have the embedding and the head.
bool has_layers_for(std::int64_t layers, std::int32_t stages);

/// Returns the number of layers of each stage. The longest stage is as short as possible. If ranks have
/// several stages, the times of the ranks are also as equal as possible. `most_of_rank` limits the layers of
/// each rank. If it is empty, there is no limit. Returns an empty list if the limits do not allow all layers.
/// `slowness` has, for each rank, the factor by which its devices take longer than `times`. If it is empty,
/// all factors are 1. Requires has_layers_for().
std::vector<std::int64_t> level_layers(const LayerTimes& times, std::span<const std::int32_t> rank_of_stage,
                                       std::span<const std::int64_t> most_of_rank,
                                       std::span<const double> slowness = {});

// Computes the prices of the stages of a pipeline whose output layer is divided over its ranks (vocabulary
// parallelism, schedules/rules/vocabulary.cpp).

/// Returns the costs of all 2K + 1 stages, like copy_costs(). `layers` has the number of layers of the first
/// K stages, and `rank_of_stage` has the rank of each stage. Each edge has the bytes that leave its stage.
/// Requires extra stages. Returns an error if a figure does not fit in 64 bits. Layers of multi-token
/// prediction are also an error, because they have output layers of their own.
tl::expected<CostTable, std::string> sliced_output_costs(const Workload& work, const KernelTables& kernels,
                                                         std::span<const std::int64_t> layers,
                                                         std::span<const std::int32_t> rank_of_stage,
                                                         std::int64_t microbatches, ExtraStages extra);
/// Returns the same costs as the function above, but uses prices of layers that the caller has computed
/// (layer_prices_of_kinds()).
tl::expected<CostTable, std::string> sliced_output_costs(const Workload& work, const KernelTables& kernels,
                                                         std::span<const LayerPrices> of_kinds,
                                                         std::span<const std::int64_t> layers,
                                                         std::span<const std::int32_t> rank_of_stage,
                                                         std::int64_t microbatches, ExtraStages extra);

/// Divides layers into parts that differ by at most one layer. Later parts get the additional layers, because
/// the first stage also has the embedding. It balances stages whose output layer is divided over all ranks.
std::vector<std::int64_t> nearly_even_layers(std::int64_t layers, std::int32_t stages);

}  // namespace penstock
