// Determines what each layer of a model has: experts, attention with its window, a recurrence. A
// configuration states this by steps ("every n-th layer"), by lists, or not at all. Each family has its
// own key names, so the code can read the keys of all families. Sizes that differ from layer to layer are
// read here as well. huggingface_model.cpp reads the sizes of the whole model. Tested by
// huggingface_test.cpp and hybrid_models_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/huggingface.hpp"
#include "scenarios/read/reader.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

constexpr Range kIndex{.least = 0, .most = 1 << 16};

// --- which layers have experts --------------------------------------------------------------------------

/// The keys by which the model families say which layers have experts. A key that the configuration does not
/// have makes no layer dense and no layer sparse.
struct ExpertLayers {
  std::int64_t first = 0;              ///< number of layers at the beginning that are dense
  std::optional<std::int64_t> last;    ///< index of the last layer that may have experts
  std::int64_t every = 1;              ///< DeepSeek: layers 0, n, 2n, ... have experts
  std::int64_t step = 1;               ///< Qwen, Llama and Ernie: layers n - 1, 2n - 1, ... have experts
  std::vector<std::int64_t> dense;     ///< the layers that are dense
  std::vector<std::int64_t> listed;    ///< the only layers that have experts
  std::vector<std::int64_t> switches;  ///< one switch for each layer; 1 means that it has experts

  bool holds(std::int64_t layer) const {
    const auto among = [layer](const std::vector<std::int64_t>& layers) {
      return std::ranges::find(layers, layer) != layers.end();
    };
    // The most explicit statement decides: first a switch for each layer, then a list, then steps.
    if (!switches.empty()) return switches[static_cast<std::size_t>(layer)] != 0;
    if (!listed.empty()) return among(listed);
    return layer >= first && (!last || layer <= *last) && layer % every == 0 && (layer + 1) % step == 0 &&
           !among(dense);
  }
};

/// Reads a list that names each layer "sparse" (with experts) or "dense". Returns 1 for each layer with
/// experts, and 0 for each other layer.
std::vector<std::int64_t> switches_of_types(HuggingFaceConfig& config) {
  std::vector<std::int64_t> switches;
  for (const std::string& type : config.words({"mlp_layer_types"}))
    switches.push_back(type == "sparse" ? 1 : 0);
  return switches;
}

/// Reads which layers have experts. `moe_layer_freq` is a step in DeepSeek's configurations, and a list of
/// switches in others.
ExpertLayers expert_layers_of(HuggingFaceConfig& config, std::size_t layers) {
  ExpertLayers answer;
  answer.first = config.size({"first_k_dense_replace", "moe_layer_start_index"}, kIndex).value_or(0);
  const Node* last = config.find({"moe_layer_end_index"});
  // The value -1 means the last layer, which is also the default.
  if (last != nullptr && last->text != "-1") answer.last = config.size({"moe_layer_end_index"}, kIndex);
  const Node* frequency = config.find({"moe_layer_freq"});
  const bool is_list = frequency != nullptr && frequency->kind == Node::Kind::list;
  if (!is_list) answer.every = config.size({"moe_layer_freq"}, kModelCount).value_or(1);
  const KeyNames switches = {is_list ? "moe_layer_freq" : "mlp_layer_types"};
  answer.switches =
      is_list ? config.numbers(switches.front(), {.least = 0, .most = 1}) : switches_of_types(config);
  answer.step =
      config.size({"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"}, kModelCount)
          .value_or(1);
  answer.dense = config.numbers("mlp_only_layers", kIndex);
  answer.listed = config.numbers("moe_layers", kIndex);
  if (!answer.switches.empty() && answer.switches.size() != layers) {
    config.complain(switches, fmt::format("expected one entry for each of the {} layers, got {}", layers,
                                          answer.switches.size()));
    answer.switches.clear();
  }
  return answer;
}

// --- the parts of a layer -------------------------------------------------------------------------------

/// The window sizes of a model: one for its layers with a sliding window, and one for its layers with
/// chunks. 0 means that there are no such layers.
struct Windows {
  std::int64_t sliding = 0;
  std::int64_t chunked = 0;
};

/// A configuration whose layers are being read, together with the properties of the whole model.
struct LayerReading {
  HuggingFaceConfig& config;
  const HuggingFaceFamily& family;
  const Architecture& model;
  Windows windows;

  std::size_t count() const { return model.layers.size(); }
};

/// Returns a layer that has attention with this window.
LayerKind attention_layer(const HuggingFaceFamily& family, std::int64_t window) {
  return {.window = window,
          .has_recurrence = family.recurrence_beside,
          .has_feed_forward = !family.one_part_layers};
}

LayerKind recurrent_layer(const HuggingFaceFamily& family) {
  return {.has_attention = false, .has_recurrence = true, .has_feed_forward = !family.one_part_layers};
}

/// Returns the layer that a word in `layer_types` names. Returns nothing if the model states no sizes for
/// this type of layer.
std::optional<LayerKind> layer_of_type(const LayerReading& reading, std::string_view type) {
  const HuggingFaceFamily& family = reading.family;
  if (type == "full_attention" || type == "global_attention" || type == "attention" ||
      type == "deepseek_sparse_attention") {
    return attention_layer(family, 0);
  }
  if (type == "sliding_attention" || type == "local_attention")
    return attention_layer(family, reading.windows.sliding);
  if (type == "chunked_attention") return attention_layer(family, reading.windows.chunked);
  const bool is_recurrent = type == "linear_attention" || type == "mamba" || type == "mamba2";
  if (is_recurrent && reading.model.recurrence) return recurrent_layer(family);
  if (!family.one_part_layers) return std::nullopt;
  if (type == "mlp") return LayerKind{.has_attention = false};
  if (type == "moe" && reading.model.experts) return LayerKind{.has_experts = true, .has_attention = false};
  return std::nullopt;
}

/// Returns the layer type that a letter stands for in a pattern of Nemotron, such as "M-M*-ME".
std::string type_of_letter(char letter) {
  switch (letter) {
    case 'M':
      return "mamba";
    case '*':
      return "attention";
    case '-':
      return "mlp";
    case 'E':
      return "moe";
    default:
      return std::string(1, letter);
  }
}

const KeyNames kTypeLists = {"layers_block_type", "layer_types"};

/// The types of all layers, and the key that lists them.
struct LayerTypes {
  std::string_view key{};
  std::vector<std::string> types{};
};

LayerTypes layer_types_of(HuggingFaceConfig& config) {
  for (const std::string_view key : kTypeLists) {
    if (std::vector<std::string> types = config.words({key}); !types.empty())
      return {.key = key, .types = std::move(types)};
  }
  LayerTypes answer{.key = "hybrid_override_pattern"};
  for (const char letter : config.word({answer.key})) answer.types.push_back(type_of_letter(letter));
  return answer;
}

std::vector<LayerKind> layers_by_type(const LayerReading& reading, const LayerTypes& listed) {
  const std::size_t layers = reading.count();
  std::vector<LayerKind> kinds(layers);
  const Node& place = *reading.config.find({listed.key});
  if (listed.types.size() != layers) {
    reading.config.complain(place, listed.key,
                            fmt::format("expected a list of the types of the {} layers, got {} of them",
                                        layers, listed.types.size()));
    return kinds;
  }
  std::vector<std::string> others;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string& type = listed.types[i];
    const auto kind = layer_of_type(reading, type);
    kinds[i] = kind.value_or(attention_layer(reading.family, 0));
    if (!kind && std::ranges::find(others, type) == others.end()) others.push_back(type);
  }
  if (!others.empty())
    reading.config.add_unpriced(place, listed.key, fmt::format("{}", fmt::join(others, ", ")));
  return kinds;
}

/// Returns, for each layer of a model with recurrent layers (such as Mamba), whether it has attention.
/// Returns an empty list if no key says so. Kimi counts layers from 1, and other models from 0.
std::vector<bool> attention_switches(const LayerReading& reading) {
  HuggingFaceConfig& config = reading.config;
  const std::size_t layers = reading.count();
  const std::vector<std::int64_t> types = config.numbers("attn_type_list", {.least = 0, .most = 1});
  std::vector<std::int64_t> indices = config.numbers("attn_layer_indices", kIndex);
  const std::int64_t every =
      config.size({"full_attention_interval"}, kModelCount).value_or(reading.family.attention_every);
  const Node* of_kimi = config.find({"linear_attn_config"});
  const Node* full = of_kimi == nullptr ? nullptr : of_kimi->find("full_attn_layers");
  std::vector<bool> switches(layers);
  if (types.size() == layers) {
    for (std::size_t i = 0; i < layers; ++i) switches[i] = types[i] == 1;
    return switches;
  }
  if (std::ranges::find(types, 0) != types.end()) {
    config.complain({"attn_type_list"}, fmt::format("expected one entry for each of the {} layers, got {}",
                                                    layers, types.size()));
  }
  if (full != nullptr) {
    for (const Node& item : full->items) indices.push_back(integer_of(item, kModelCount).value_or(1) - 1);
  }
  for (const std::int64_t layer : indices) {
    if (layer < static_cast<std::int64_t>(layers)) switches[static_cast<std::size_t>(layer)] = true;
  }
  if (!indices.empty()) return switches;
  if (every == 0) return {};
  for (std::size_t i = 0; i < layers; ++i) switches[i] = (i + 1) % static_cast<std::size_t>(every) == 0;
  return switches;
}

/// Returns the windows of Llama 4's layers. Layers without rotary positions see all tokens. In the other
/// layers, a query sees only the tokens of its chunk.
std::vector<std::int64_t> windows_by_chunk(HuggingFaceConfig& config, std::size_t layers,
                                           std::int64_t chunked) {
  const std::vector<std::int64_t> rotary = config.numbers("no_rope_layers", {.least = 0, .most = 1});
  const auto interval =
      static_cast<std::size_t>(config.size({"no_rope_layer_interval"}, kModelCount).value_or(4));
  std::vector<std::int64_t> answer(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    // Despite its name, the list has the value 1 for layers with rotary positions. Without a list, every
    // fourth layer has none.
    const bool is_rotary = rotary.size() == layers ? rotary[i] != 0 : (i + 1) % interval != 0;
    if (is_rotary) answer[i] = chunked;
  }
  return answer;
}

/// Returns n if every n-th layer sees all tokens. The configuration states a number such as 6, or a pattern
/// such as EXAONE's "LLLG".
std::int64_t full_every_of(HuggingFaceConfig& config, const HuggingFaceFamily& family) {
  const KeyNames names = {"sliding_window_pattern", "_sliding_window_pattern"};
  const Node* pattern = config.find(names);
  if (pattern == nullptr) return family.full_every;
  const std::string& text = pattern->text;
  const bool is_word = text.ends_with('G') && text.find_first_not_of('L') + 1 == text.size();
  return is_word ? static_cast<std::int64_t>(text.size()) : config.size(names, kModelCount).value_or(1);
}

/// Returns the window of each layer. The most explicit key decides: MiMo's list of switches, else chunks,
/// else the interval of layers with full attention. All of these keys are read in any case, so that none is
/// reported as unknown.
std::vector<std::int64_t> windows_of(const LayerReading& reading) {
  HuggingFaceConfig& config = reading.config;
  const std::size_t layers = reading.count();
  const Windows& windows = reading.windows;
  const bool is_on = config.flag({"use_sliding_window"}).value_or(!reading.family.windows_by_switch);
  const std::int64_t first = config.size({"max_window_layers"}, kIndex).value_or(0);
  const std::int64_t full_every = full_every_of(config, reading.family);
  const std::vector<std::int64_t> slides = config.numbers("hybrid_layer_pattern", {.least = 0, .most = 1});
  std::vector<std::int64_t> answer(layers);
  if (slides.size() == layers) {
    for (std::size_t i = 0; i < layers; ++i) answer[i] = slides[i] * windows.sliding;
    return answer;
  }
  if (!slides.empty()) {
    config.complain(
        {"hybrid_layer_pattern"},
        fmt::format("expected one entry for each of the {} layers, got {}", layers, slides.size()));
  }
  if (windows.chunked > 0) return windows_by_chunk(config, layers, windows.chunked);
  for (std::size_t i = 0; is_on && i < layers; ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool is_full = layer < first || (full_every > 0 && (layer + 1) % full_every == 0);
    answer[i] = is_full ? 0 : windows.sliding;
  }
  return answer;
}

/// Returns each layer with its attention or recurrence. Experts, indexers and heads of its own are added
/// later.
std::vector<LayerKind> mixers_of(const LayerReading& reading) {
  const LayerTypes listed = layer_types_of(reading.config);
  // These functions read keys that are not needed if a list decides. They run anyway, so that the keys are
  // not reported as unknown.
  const std::vector<std::int64_t> windows = windows_of(reading);
  const std::vector<bool> attends = attention_switches(reading);
  if (!listed.types.empty()) return layers_by_type(reading, listed);
  std::vector<LayerKind> kinds(reading.count());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const bool is_recurrent = reading.model.recurrence && !attends.empty() && !attends[i];
    kinds[i] = is_recurrent ? recurrent_layer(reading.family) : attention_layer(reading.family, windows[i]);
  }
  return kinds;
}

// --- heads and indexers by layer ------------------------------------------------------------------------

/// The attention heads of layers with a window (`sliding`) and without one (`full`), if they differ from
/// the model's heads.
struct HeadsByWindow {
  std::optional<OwnHeads> sliding{};
  std::optional<OwnHeads> full{};
};

/// Reads the attention heads of layers with a window (MiMo) and of layers without one (Gemma 4). A size
/// that no key states is the model's size.
HeadsByWindow heads_by_window(HuggingFaceConfig& config, const Architecture& model) {
  const auto sinks = config.flag({"add_swa_attention_sink_bias"});
  const auto read = [&](std::string_view heads, std::string_view kv_heads, std::string_view key,
                        std::string_view value, bool differs, bool has_sinks) -> std::optional<OwnHeads> {
    const auto own_heads = config.size_if_any({heads}, kModelSize);
    const auto own_kv = config.size_if_any({kv_heads}, kModelSize);
    const auto own_key = config.size_if_any({key}, kModelSize);
    const auto own_value = config.size_if_any({value}, kModelSize);
    if (!own_heads && !own_kv && !own_key && !own_value && !differs) return std::nullopt;
    const OwnHeads answer{.heads = own_heads.value_or(model.heads),
                          .kv_heads = own_kv.value_or(model.kv_heads),
                          .key_dim = own_key.value_or(model.head_dim),
                          .value_dim = own_value.value_or(own_key.value_or(model.head_value_dim())),
                          .sinks = has_sinks};
    if (answer.heads % answer.kv_heads != 0) {
      config.complain({kv_heads}, fmt::format("expected a number that divides the {} heads, got {}",
                                              answer.heads, answer.kv_heads));
    }
    return answer;
  };
  const bool has_sinks = sinks.value_or(model.attention_sinks);
  HeadsByWindow answer{.sliding = read("swa_num_attention_heads", "swa_num_key_value_heads", "swa_head_dim",
                                       "swa_v_head_dim", has_sinks != model.attention_sinks, has_sinks),
                       .full = read("num_global_attention_heads", "num_global_key_value_heads",
                                    "global_head_dim", "global_v_head_dim", false, model.attention_sinks)};
  // Gemma 4's key holds for all layers, but only layers without a window share keys and values.
  const bool shares_values = config.flag({"attention_k_eq_v"}).value_or(false);
  if (answer.full) answer.full->shares_values = shares_values;
  return answer;
}

/// Returns, for each layer, whether it has its own indexer. A layer without one uses the keys that the
/// nearest earlier indexer selects (GLM-5.2).
std::vector<bool> indexer_switches(HuggingFaceConfig& config, std::size_t layers) {
  std::vector<std::string> types = config.words({"indexer_types"});
  const Node* pattern = config.find({"index_topk_pattern"});
  const auto every = config.size({"index_topk_freq"}, kModelCount).value_or(1);
  const auto offset = config.size({"index_skip_topk_offset"}, kIndex).value_or(2);
  if (types.empty() && pattern != nullptr) {
    for (const char letter : pattern->text) types.emplace_back(letter == 'F' ? "full" : "shared");
  }
  std::vector<bool> switches(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    const auto behind = std::max<std::int64_t>(0, static_cast<std::int64_t>(i) - offset + 1);
    switches[i] = types.size() == layers ? types[i] == "full" : behind % every == 0;
  }
  return switches;
}

/// Adds the details of attention, except the window, to each layer.
void add_attention_details(const LayerReading& reading, std::vector<LayerKind>& kinds) {
  const HeadsByWindow heads = heads_by_window(reading.config, reading.model);
  const auto selected = reading.config.size_if_any({"index_topk"}, kModelSize).value_or(0);
  const std::vector<bool> indexes = indexer_switches(reading.config, kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (!kinds[i].has_attention) continue;
    kinds[i].heads = kinds[i].window > 0 ? heads.sliding : heads.full;
    if (!reading.model.indexer) continue;
    kinds[i].has_indexer = indexes[i];
    kinds[i].selected = selected;
  }
}

}  // namespace

std::optional<std::int64_t> listed_layers(HuggingFaceConfig& config) {
  const LayerTypes listed = layer_types_of(config);
  if (listed.types.empty()) return std::nullopt;
  return static_cast<std::int64_t>(listed.types.size());
}

std::vector<LayerKind> layer_kinds_of(HuggingFaceConfig& config, const HuggingFaceFamily& family,
                                      const Architecture& model) {
  const std::size_t layers = model.layers.size();
  const ExpertLayers expert_layers = expert_layers_of(config, layers);
  // On average, a token attends to half of its chunk. A chunk therefore becomes a window of half the chunk's
  // size.
  const LayerReading reading{
      .config = config,
      .family = family,
      .model = model,
      .windows = {.sliding = config.size_if_any({"sliding_window"}, kModelSize).value_or(0),
                  .chunked = config.size_if_any({"attention_chunk_size"}, kModelSize).value_or(0) / 2}};
  std::vector<LayerKind> kinds = mixers_of(reading);
  for (std::size_t i = 0; model.experts && !family.one_part_layers && i < layers; ++i)
    kinds[i].has_experts = expert_layers.holds(static_cast<std::int64_t>(i));
  add_attention_details(reading, kinds);
  if (std::vector<LayerKind> blocks = layers_by_block(config, model); blocks.size() == layers) return blocks;
  return kinds;
}

// Reads the sizes of recurrences. Each kind of recurrence has its own keys, so the keys in a configuration
// determine the kind.

namespace {

/// Reads the recurrence of Qwen3-Next and Qwen3.5. Each head computes a decay and a strength from the
/// input. It also has a learned decay and a learned bias of its step.
RecurrentMixer gated_delta_rule(HuggingFaceConfig& config) {
  const std::int64_t value_dim = config.required({"linear_value_head_dim"}, kModelSize);
  return {.key_heads = config.required({"linear_num_key_heads"}, kModelSize),
          .key_dim = config.required({"linear_key_head_dim"}, kModelSize),
          .value_heads = config.required({"linear_num_value_heads"}, kModelSize),
          .value_dim = value_dim,
          .taps = config.size({"linear_conv_kernel_dim"}, kModelCount).value_or(4),
          .head_inputs = 2,
          .head_vectors = 2,
          .norm_weights = value_dim,
          .delta_rule = true};
}

/// Reads the recurrence of Mamba-2. Each head computes a step from the input. It also has a learned decay,
/// a learned bias of its step, and a learned skip.
RecurrentMixer state_space(HuggingFaceConfig& config, const Architecture& model, std::int64_t heads) {
  const KeyNames dim_names = {"mamba_head_dim", "mamba_d_head"};
  const std::int64_t expand = config.size_if_any({"expand", "mamba_expand"}, kModelSize).value_or(2);
  const auto inner = config.size_if_any({"mamba_d_ssm"}, kModelSize).value_or(expand * model.hidden);
  const Node* stated = config.find(dim_names);
  const bool is_stated = stated != nullptr && stated->text != "auto";
  const std::int64_t dim = is_stated ? config.required(dim_names, kModelSize) : inner / heads;
  const bool has_norm = config.flag({"mamba_rms_norm"}).value_or(true);
  return {.key_heads = config.size_if_any({"n_groups", "mamba_n_groups"}, kModelSize).value_or(1),
          .key_dim = config.required({"ssm_state_size", "mamba_d_state"}, kModelSize),
          .value_heads = heads,
          .value_dim = std::max<std::int64_t>(1, dim),
          .taps = config.size_if_any({"conv_kernel", "mamba_d_conv"}, kModelCount).value_or(4),
          .convolution_bias = config.flag({"use_conv_bias", "mamba_conv_bias"}).value_or(true),
          .projection_bias = config.flag({"mamba_proj_bias", "projectors_bias"}).value_or(false),
          .head_inputs = 1,
          .head_vectors = 3,
          .norm_weights = has_norm ? heads * std::max<std::int64_t>(1, dim) : 0,
          .chunk = config.size_if_any({"chunk_size", "mamba_chunk_size"}, kModelCount).value_or(256)};
}

/// Reads Kimi delta attention. Its sizes are in a mapping of their own. Keys and values have the same
/// number of heads.
RecurrentMixer kimi_delta_attention(HuggingFaceConfig& config, const Node& sizes) {
  const auto size = [&](std::string_view key) {
    const Node* value = sizes.find(key);
    const auto number = value == nullptr
                            ? tl::expected<std::int64_t, std::string>(tl::unexpect, "got nothing")
                            : integer_of(*value, kModelSize);
    if (!number) config.complain(value == nullptr ? sizes : *value, key, number.error());
    return number.value_or(1);
  };
  const std::int64_t heads = size("num_heads");
  const std::int64_t dim = size("head_dim");
  const Node* full_rank = sizes.find("use_full_rank_gate");
  const bool is_full = full_rank != nullptr && !is_off(*full_rank);
  return {.key_heads = heads,
          .key_dim = dim,
          .value_heads = heads,
          .value_dim = dim,
          .taps = size("short_conv_kernel_size"),
          .head_inputs = 1,
          .head_vectors = 1,
          .gate_rank = is_full ? 0 : dim,
          .decay_rank = dim,
          .norm_weights = dim,
          .delta_rule = true};
}

}  // namespace

std::optional<RecurrentMixer> recurrence_of(HuggingFaceConfig& config, const Architecture& model) {
  std::optional<RecurrentMixer> answer;
  const KeyNames mamba_heads = {"mamba_num_heads", "mamba_n_heads"};
  const Node* of_kimi = config.find({"linear_attn_config"});
  const Node* types = config.find({"attn_type_list"});
  if (config.has("linear_num_value_heads")) {
    answer = gated_delta_rule(config);
  } else if (const auto heads = config.size_if_any(mamba_heads, kModelSize)) {
    answer = state_space(config, model, *heads);
  } else if (of_kimi != nullptr && of_kimi->kind == Node::Kind::mapping) {
    answer = kimi_delta_attention(config, *of_kimi);
  } else if (types != nullptr || config.has("linear_attn_alpha_factor")) {
    // MiniMax's lightning attention has the heads of its full attention, and a norm over all of them.
    answer = RecurrentMixer{.key_heads = model.heads,
                            .key_dim = model.head_dim,
                            .value_heads = model.heads,
                            .value_dim = model.head_dim,
                            .norm_weights = model.heads * model.head_dim,
                            .chunk = config.size_if_any({"block_size"}, kModelCount).value_or(256)};
  }
  if (answer && answer->value_heads % answer->key_heads != 0) {
    config.complain({"linear_num_key_heads", "n_groups", "mamba_n_groups"},
                    fmt::format("expected a number that divides the {} recurrent heads, got {}",
                                answer->value_heads, answer->key_heads));
  }
  return answer;
}

// Reads `block_configs`, in which models from architecture search describe each layer by itself.

namespace {

/// Returns the value of a key in the mapping `part`. Returns null if the key is absent or its value means
/// "off".
const Node* stated(const Node* part, std::string_view key) {
  const Node* value = part == nullptr ? nullptr : part->find(key);
  return value == nullptr || is_off(*value) ? nullptr : value;
}

std::optional<std::int64_t> size_in(const HuggingFaceConfig& config, const Node* part, std::string_view key) {
  const Node* value = stated(part, key);
  if (value == nullptr) return std::nullopt;
  const auto number = integer_of(*value, kModelSize);
  if (!number) config.complain(*value, key, number.error());
  return number.value_or(1);
}

/// Returns the inner width of a feed-forward part for a multiple of the hidden width. DeciLM takes two
/// thirds of the product and rounds up to a multiple of 256.
std::int64_t width_of_multiple(double multiple, std::int64_t hidden) {
  constexpr std::int64_t kStep = 256;
  const auto plain = static_cast<std::int64_t>(2 * multiple * static_cast<double>(hidden) / 3);
  return (plain + kStep - 1) / kStep * kStep;
}

void read_block_attention(HuggingFaceConfig& config, const Node* part, const Architecture& model,
                          LayerKind& kind) {
  kind.has_attention = stated(part, "no_op") == nullptr && stated(part, "replace_with_linear") == nullptr;
  kind.linear_parts += stated(part, "replace_with_linear") != nullptr ? 1 : 0;
  if (!kind.has_attention) return;
  kind.window = size_in(config, part, "window_length").value_or(0);
  const std::int64_t in_group = size_in(config, part, "n_heads_in_group").value_or(1);
  const std::int64_t kv_heads = size_in(config, part, "num_key_value_heads")
                                    .value_or(std::max<std::int64_t>(1, model.heads / in_group));
  kind.heads = OwnHeads{.heads = model.heads,
                        .kv_heads = kv_heads,
                        .key_dim = model.head_dim,
                        .value_dim = model.head_value_dim(),
                        .sinks = model.attention_sinks};
  if (model.heads % kv_heads != 0) {
    config.complain(
        *part, "n_heads_in_group",
        fmt::format("expected key heads that divide the {} heads, got {}", model.heads, kv_heads));
  }
}

void read_block_feed_forward(HuggingFaceConfig& config, const Node* part, const Architecture& model,
                             LayerKind& kind) {
  kind.has_feed_forward = stated(part, "no_op") == nullptr && stated(part, "replace_with_linear") == nullptr;
  kind.linear_parts += stated(part, "replace_with_linear") != nullptr ? 1 : 0;
  if (!kind.has_feed_forward) return;
  const auto width = size_in(config, part, "intermediate_size");
  const Node* multiple = stated(part, "ffn_mult");
  const auto number = multiple == nullptr ? std::nullopt : finite_number(multiple->text);
  if (width || number) {
    kind.feed_forward = width ? *width : width_of_multiple(*number, model.hidden);
    return;
  }
  config.complain(part == nullptr ? config.root() : *part, "ffn",
                  "expected ffn_mult or intermediate_size, or no_op: true");
}

}  // namespace

std::vector<LayerKind> layers_by_block(HuggingFaceConfig& config, const Architecture& model) {
  const Node* blocks = config.find({"block_configs"});
  if (blocks == nullptr) return {};
  if (blocks->items.size() != model.layers.size()) {
    config.complain(*blocks, "block_configs",
                    fmt::format("expected one block for each of the {} layers, got {}", model.layers.size(),
                                blocks->items.size()));
  }
  std::vector<LayerKind> kinds;
  for (const Node& block : blocks->items) {
    LayerKind& kind = kinds.emplace_back();
    read_block_attention(config, block.find("attention"), model, kind);
    read_block_feed_forward(config, block.find("ffn"), model, kind);
    for (const std::string_view structure : {"mamba", "moe"}) {
      for (const std::string_view part : {"attention", "ffn"}) {
        const Node* value = stated(block.find(part), structure);
        if (value != nullptr) config.add_unpriced(*value, "block_configs", structure);
      }
    }
  }
  return kinds;
}

}  // namespace penstock
