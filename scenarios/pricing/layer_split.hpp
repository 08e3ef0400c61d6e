#pragma once
// The layers of each model stage.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// The rule that divides layers among model stages (including virtual ones), in the model's order.
struct LayerSplit {
  enum class Rule : std::uint8_t {
    unstated,       // even if the layers divide, otherwise balanced
    even,           // equally many in each stage
    ends_one_less,  // embedding and head count as one layer each
    balanced,       // by price
    listed,         // as in `counts`
  };
  Rule rule = Rule::unstated;
  /// The layers of each stage, for Rule::listed.
  std::vector<std::int64_t> counts{};

  friend bool operator==(const LayerSplit&, const LayerSplit&) = default;
};

/// Reads "even", "ends-one-less", "balanced", or a Megatron layout such as "Et*3|(tt|)*30,t*2L". In a layout
/// '|' separates stages and commas have no meaning. E is the embedding, t a layer, m a multi-token-prediction
/// layer, L the loss; "x*n" and "(..)*n" repeat. Error: what was expected and what was found.
tl::expected<LayerSplit, std::string> parse_layer_split(std::string_view text);
/// Returns the rule or the list as a scenario has it.
std::string to_text(const LayerSplit& split);

/// Returns the rule that applies to this number of layers and stages: the stated one, otherwise `even` if the
/// layers divide and `balanced` if they do not.
LayerSplit::Rule rule_in_force(const LayerSplit& split, std::int64_t layers, std::int32_t stages);

/// Returns the layers of each of `stages` stages. Requires that the rule in force is not `balanced`, which
/// needs prices (prepare/balanced_split.hpp). Errors, with the figures: the layers do not divide, or the
/// listed ones do not sum to `layers` or do not have one entry a stage.
tl::expected<std::vector<std::int64_t>, std::string> split_layers(const LayerSplit& split,
                                                                  std::int64_t layers, std::int32_t stages);

}  // namespace penstock
