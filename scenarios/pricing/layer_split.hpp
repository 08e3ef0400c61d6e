#pragma once
// Divides a model's layers among its stages.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// The rule that divides layers among model stages in the model's order. Virtual stages count as stages.
struct LayerSplit {
  enum class Rule : std::uint8_t {
    unstated,       // even if the number of stages divides the layers, otherwise balanced
    even,           // equally many layers in each stage
    ends_one_less,  // embedding and head count as one layer each
    balanced,       // by the prices of the layers
    listed,         // as stated in `counts`
  };
  Rule rule = Rule::unstated;
  /// The number of layers of each stage, for Rule::listed.
  std::vector<std::int64_t> counts{};

  friend bool operator==(const LayerSplit&, const LayerSplit&) = default;
};

/// Reads "even", "ends-one-less", "balanced", or a Megatron layout such as "Et*3|(tt|)*30,t*2L". In a layout
/// '|' separates stages, and commas have no meaning. E is the embedding, t a layer, m a
/// multi-token-prediction layer, and L the loss. "x*n" and "(..)*n" mean repetition. Error: a text that is
/// none of these.
tl::expected<LayerSplit, std::string> parse_layer_split(std::string_view text);
/// Returns the rule or the list as a scenario states it.
std::string to_text(const LayerSplit& split);

/// Returns the rule that applies to this number of layers and stages. It is the stated rule. If none is
/// stated, it is `even` if the number of stages divides the layers, and `balanced` otherwise.
LayerSplit::Rule rule_in_force(const LayerSplit& split, std::int64_t layers, std::int32_t stages);

/// Returns the number of layers of each stage. Requires that rule_in_force() is not `balanced`, which needs
/// prices (prepare/balanced_split.hpp). Errors, with the figures: the stages do not divide the layers; listed
/// counts do not add up to `layers`, or their number is not `stages`.
tl::expected<std::vector<std::int64_t>, std::string> split_layers(const LayerSplit& split,
                                                                  std::int64_t layers, std::int32_t stages);

}  // namespace penstock
