// Which layers have experts and which see a window is said in steps, in lists or not at all; each family has
// its own way, with names that no other uses, so that all of them can be read at once.

#include "scenarios/read/huggingface_layers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/huggingface_config.hpp"
#include "scenarios/read/huggingface_families.hpp"
#include "scenarios/read/ranges.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

constexpr Range kIndex{.least = 0, .most = 1 << 16};

// --- which layers have experts --------------------------------------------------------------------------

/// Steps and lists of the families, each of which says nothing where it is left out.
struct ExpertLayers {
  std::int64_t first = 0;              ///< layers before it are dense
  std::optional<std::int64_t> last;    ///< layers behind it are dense
  std::int64_t every = 1;              ///< DeepSeek's: layers 0, n, 2n, ..
  std::int64_t step = 1;               ///< Qwen's, Llama's, Ernie's: layers n - 1, 2n - 1, ..
  std::vector<std::int64_t> dense;     ///< these are dense
  std::vector<std::int64_t> listed;    ///< only these have experts
  std::vector<std::int64_t> switches;  ///< 1: has experts

  bool holds(std::int64_t layer) const {
    const auto among = [layer](const std::vector<std::int64_t>& layers) {
      return std::ranges::find(layers, layer) != layers.end();
    };
    // The most explicit way decides: a switch for each layer, a list, and only then steps.
    if (!switches.empty()) return switches[static_cast<std::size_t>(layer)] != 0;
    if (!listed.empty()) return among(listed);
    return layer >= first && (!last || layer <= *last) && layer % every == 0 && (layer + 1) % step == 0 &&
           !among(dense);
  }
};

/// `moe_layer_freq` is a step in DeepSeek's configurations and a list of switches in others.
ExpertLayers expert_layers_of(HuggingFaceConfig& config, std::size_t layers) {
  ExpertLayers answer;
  answer.first = config.size({"first_k_dense_replace", "moe_layer_start_index"}, kIndex).value_or(0);
  const Node* last = config.find({"moe_layer_end_index"});
  // -1 means the last layer, which is what leaving it out means.
  if (last != nullptr && last->text != "-1") answer.last = config.size({"moe_layer_end_index"}, kIndex);
  const Node* frequency = config.find({"moe_layer_freq"});
  const bool is_list = frequency != nullptr && frequency->kind == Node::Kind::list;
  if (!is_list) answer.every = config.size({"moe_layer_freq"}, kModelCount).value_or(1);
  if (is_list) answer.switches = config.numbers("moe_layer_freq", {.least = 0, .most = 1});
  answer.step =
      config.size({"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"}, kModelCount)
          .value_or(1);
  answer.dense = config.numbers("mlp_only_layers", kIndex);
  answer.listed = config.numbers("moe_layers", kIndex);
  if (is_list && answer.switches.size() != layers) {
    config.complain(
        *frequency, "moe_layer_freq",
        fmt::format("expected one entry for each of the {} layers, got {}", layers, answer.switches.size()));
    answer.switches.clear();
  }
  return answer;
}

// --- which layers have windows --------------------------------------------------------------------------

/// What a query sees in layers that do not see all; 0: all.
struct Windows {
  std::int64_t sliding = 0;
  std::int64_t chunked = 0;
};

/// What a query sees by the layer's type; nothing for a type that is not attention.
std::optional<std::int64_t> window_of_type(std::string_view type, const Windows& windows) {
  if (type == "full_attention" || type == "global_attention" || type == "attention") return 0;
  if (type == "sliding_attention" || type == "local_attention") return windows.sliding;
  if (type == "chunked_attention") return windows.chunked;
  return std::nullopt;
}

std::vector<std::int64_t> windows_by_type(HuggingFaceConfig& config, const Node& types, std::size_t layers,
                                          const Windows& windows) {
  std::vector<std::int64_t> answer(layers);
  if (types.items.size() != layers) {
    config.complain(types, "layer_types",
                    fmt::format("expected a list of the types of the {} layers, got {} of them", layers,
                                types.items.size()));
    return answer;
  }
  std::vector<std::string> others;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string& type = types.items[i].text;
    const auto window = window_of_type(type, windows);
    answer[i] = window.value_or(0);
    if (!window && std::ranges::find(others, type) == others.end()) others.push_back(type);
  }
  if (!others.empty()) config.add_unpriced(types, "layer_types", fmt::format("{}", fmt::join(others, ", ")));
  return answer;
}

/// Llama 4's layers without rotary positions see all, the others their chunk.
std::vector<std::int64_t> windows_by_chunk(HuggingFaceConfig& config, std::size_t layers,
                                           std::int64_t chunked) {
  const std::vector<std::int64_t> rotary = config.numbers("no_rope_layers", {.least = 0, .most = 1});
  const auto interval =
      static_cast<std::size_t>(config.size({"no_rope_layer_interval"}, kModelCount).value_or(4));
  std::vector<std::int64_t> answer(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    // The list is of switches, 1 where a layer is rotary, whatever its name says; left out, each fourth is
    // not.
    const bool is_rotary = rotary.size() == layers ? rotary[i] != 0 : (i + 1) % interval != 0;
    if (is_rotary) answer[i] = chunked;
  }
  return answer;
}

/// Each how-many-th layer sees all: 6, or EXAONE's "LLLG".
std::int64_t full_every_of(HuggingFaceConfig& config, const HuggingFaceFamily& family) {
  const KeyNames names = {"sliding_window_pattern", "_sliding_window_pattern"};
  const Node* pattern = config.find(names);
  if (pattern == nullptr) return family.full_every;
  const std::string& text = pattern->text;
  const bool is_word = text.ends_with('G') && text.find_first_not_of('L') + 1 == text.size();
  return is_word ? static_cast<std::int64_t>(text.size()) : config.size(names, kModelCount).value_or(1);
}

std::vector<std::int64_t> windows_of(HuggingFaceConfig& config, const HuggingFaceFamily& family,
                                     std::size_t layers) {
  // A token of a chunk sees half of it on average, as one under a window of half its size does.
  const Windows windows{.sliding = config.size_if_any({"sliding_window"}, kModelSize).value_or(0),
                        .chunked = config.size_if_any({"attention_chunk_size"}, kModelSize).value_or(0) / 2};
  const bool is_on = config.flag({"use_sliding_window"}).value_or(!family.windows_by_switch);
  const std::int64_t first = config.size({"max_window_layers"}, kIndex).value_or(0);
  const std::int64_t full_every = full_every_of(config, family);
  // The most explicit way decides: a type for each layer, then chunks, then steps. All keys were asked for
  // before, so that none is left as unknown.
  if (const Node* types = config.find({"layer_types"}))
    return windows_by_type(config, *types, layers, windows);
  if (windows.chunked > 0) return windows_by_chunk(config, layers, windows.chunked);
  std::vector<std::int64_t> answer(layers);
  for (std::size_t i = 0; is_on && i < layers; ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool is_full = layer < first || (full_every > 0 && (layer + 1) % full_every == 0);
    answer[i] = is_full ? 0 : windows.sliding;
  }
  return answer;
}

}  // namespace

std::vector<LayerKind> layer_kinds_of(HuggingFaceConfig& config, const HuggingFaceFamily& family,
                                      std::size_t layers, bool has_experts) {
  const ExpertLayers expert_layers = expert_layers_of(config, layers);
  const std::vector<std::int64_t> windows = windows_of(config, family, layers);
  std::vector<LayerKind> kinds(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    kinds[i] = {.has_experts = has_experts && expert_layers.holds(static_cast<std::int64_t>(i)),
                .window = windows[i]};
  }
  return kinds;
}

}  // namespace penstock
