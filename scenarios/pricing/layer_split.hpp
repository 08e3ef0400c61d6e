#pragma once
// Which layers each model stage has.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// How layers are shared out over model stages (virtual ones counted), in the model's order.
struct LayerSplit {
  enum class Rule : std::uint8_t {
    unstated,       // even where the layers divide, otherwise balanced
    even,           // as many in each
    ends_one_less,  // embedding and head count as a layer each
    balanced,       // by price
    listed,         // as `counts` says
  };
  Rule rule = Rule::unstated;
  std::vector<std::int64_t> counts{};  ///< layers of each stage, where they are listed

  friend bool operator==(const LayerSplit&, const LayerSplit&) = default;
};

/// Reads "even", "ends-one-less", "balanced", or a Megatron layout such as "Et*3|(tt|)*30,t*2L": stages
/// divided by '|' (commas say nothing), E the embedding, t a layer, m a multi-token-prediction layer, L the
/// loss; "x*n" and "(..)*n" repeat. Error: what was expected and what stands there.
tl::expected<LayerSplit, std::string> parse_layer_split(std::string_view text);
std::string to_text(const LayerSplit& split);

/// Returns the rule that decides for so many layers and stages: the stated one, otherwise `even` where the
/// layers divide and `balanced` where they do not.
LayerSplit::Rule rule_in_force(const LayerSplit& split, std::int64_t layers, std::int32_t stages);

/// Returns the layers of each of `stages` stages. Requires another rule in force than `balanced`, which needs
/// prices (prepare/balanced_split.hpp). Errors, with the figures: the layers do not divide, the listed ones
/// do not sum to `layers` or are not one a stage.
tl::expected<std::vector<std::int64_t>, std::string> split_layers(const LayerSplit& split,
                                                                  std::int64_t layers, std::int32_t stages);

}  // namespace penstock
