// The table of model families. An entry has what a family's published code builds independently of its
// configuration. For example, Qwen2 has biases on queries, keys and values, but no key of its configuration
// states this.

#include <algorithm>
#include <array>
#include <cctype>
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
#include "scenarios/read/huggingface.hpp"
#include "scenarios/read/reader.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

constexpr auto kFamilies = std::to_array<HuggingFaceFamily>({
    {.names =
         "llama llama2 llama3 mixtral mistral* ministral* yi internlm2 internlm3 baichuan* arcee deepseek "
         "deepseekv2 hunyuanv1dense granite granitemoe granitemoeshared exaone bailing* phi3"},
    {.names = "minicpm", .tied = true},
    {.names = "gpt2",
     .tied = true,
     .layer_norm = true,
     .gated = false,
     .query_key_value_bias = true,
     .output_bias = true,
     .feed_forward_bias = true,
     .learned_positions = true},
    {.names = "gptbigcode",
     .tied = true,
     .layer_norm = true,
     .gated = false,
     .query_key_value_bias = true,
     .output_bias = true,
     .feed_forward_bias = true,
     .learned_positions = true},
    {.names = "opt",
     .tied = true,
     .layer_norm = true,
     .gated = false,
     .query_key_value_bias = true,
     .output_bias = true,
     .feed_forward_bias = true,
     .learned_positions = true,
     .further_positions = 2},
    {.names = "gptneox",
     .layer_norm = true,
     .gated = false,
     .query_key_value_bias = true,
     .output_bias = true,
     .feed_forward_bias = true},
    {.names = "gptj",
     .layer_norm = true,
     .gated = false,
     .norms = 1,
     .feed_forward_bias = true,
     .head_bias = true},
    {.names = "bloom",
     .tied = true,
     .layer_norm = true,
     .gated = false,
     .query_key_value_bias = true,
     .output_bias = true,
     .feed_forward_bias = true,
     .embedding_norm = true},
    {.names = "falcon refinedweb refinedwebmodel", .tied = true, .layer_norm = true, .gated = false},
    {.names = "phi phimsft",
     .layer_norm = true,
     .gated = false,
     .norms = 1,
     .query_key_value_bias = true,
     .output_bias = true,
     .feed_forward_bias = true,
     .head_bias = true},
    {.names = "phimoe", .layer_norm = true},
    {.names = "starcoder2",
     .tied = true,
     .layer_norm = true,
     .gated = false,
     .query_key_value_bias = true,
     .output_bias = true,
     .feed_forward_bias = true},
    {.names = "stablelm", .layer_norm = true, .one_norm_beside = true},
    {.names = "nemotron", .layer_norm = true, .gated = false},
    {.names = "gemma", .tied = true, .head_dim = 256},
    {.names = "gemma2", .tied = true, .norms = 4, .full_every = 2, .head_dim = 256},
    {.names = "gemma3 gemma3text",
     .tied = true,
     .norms = 4,
     .query_key_norm = true,
     .full_every = 6,
     .head_dim = 256,
     .heads = 8,
     .kv_heads = 4,
     .vocabulary = 262208},
    {.names = "cohere", .tied = true, .norms = 1, .query_key_norm_kind = QueryKeyNorm::wide},
    {.names = "cohere2", .tied = true, .norms = 1, .full_every = 4},
    {.names = "olmo2", .query_key_norm = true, .query_key_norm_kind = QueryKeyNorm::wide},
    {.names = "olmo3", .query_key_norm = true, .query_key_norm_kind = QueryKeyNorm::wide, .full_every = 4},
    {.names = "olmoe", .query_key_norm = true, .query_key_norm_kind = QueryKeyNorm::wide},
    {.names = "smollm3", .tied = true, .windows_by_switch = true},
    {.names = "ernie45 ernie45moe", .tied = true},
    {.names = "exaone4", .query_key_norm = true, .full_every = 4},
    {.names = "seedoss", .output_has_attention_bias = false},
    {.names = "glm", .query_key_value_bias = true, .output_has_attention_bias = false},
    {.names = "glm4 glm4v glm4vtext",
     .norms = 4,
     .query_key_value_bias = true,
     .output_has_attention_bias = false},
    {.names = "glm4moe glm4vmoe glm4vmoetext", .output_has_attention_bias = false, .router_bias = true},
    {.names = "qwen2*",
     .query_key_value_bias = true,
     .output_has_attention_bias = false,
     .shared_gate = true,
     .windows_by_switch = true},
    {.names = "qwen3*", .query_key_norm = true, .windows_by_switch = true},
    {.names = "gptoss",
     .query_key_value_bias = true,
     .output_bias = true,
     .attention_sinks = true,
     .router_bias = true,
     .expert_bias = true,
     .full_every = 2},
    {.names = "deepseekv3 kimik2", .router_bias = true},
    {.names = "dots1", .query_key_norm = true, .router_bias = true, .windows_by_switch = true},
    {.names = "minimaxm2",
     .query_key_norm = true,
     .query_key_norm_kind = QueryKeyNorm::wide,
     .router_bias = true},
    {.names = "llama4 llama4text", .query_key_norm_kind = QueryKeyNorm::bare},

    // The families below cannot be priced, for the given reason. They come last, because the search begins at
    // the end.
    {.names = "olmo", .unpriced = "norms without weights"},
    {.names = "mpt dbrx", .unpriced = "sizes in mappings of its own"},
    {.names = "qwen chatglm gptneo", .unpriced = "sizes with meanings of its own"},
    {.names = "apertus", .unpriced = "learned activations"},
    {.names = "gemma3n* gemma4*", .unpriced = "embeddings and sizes by layer"},
    {.names = "mllama*", .unpriced = "cross-attention to images"},
    {.names = "qwen3next qwen35*", .unpriced = "linear attention"},
    {.names = "*mamba* *ssm* *hybrid* nemotronh* bamba jamba zamba* hymba falconh1 lfm2* phi4flash plamo2",
     .unpriced = "state-space layers"},
    {.names = "*recurrent* *rwkv* xlstm retnet kimilinear minimax minimaxtext01 minimaxm1",
     .unpriced = "recurrent layers or linear attention"},
    {.names = "nemotronnas decilm openelm", .unpriced = "layers of different sizes"},
    {.names =
         "bert* roberta* deberta* albert electra t5 mt5 umt5 bart mbart pegasus whisper clip* siglip* vit*",
     .unpriced = "no decoder-only transformer"},
});

/// Returns the name in small letters without separators, such as "qwen3moe" for "Qwen3_MoE".
std::string folded(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '_' && c != '-' && c != '.')
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

/// Returns true if the name matches the pattern. "qwen3*" matches "qwen3moe", and "*ssm*" matches any name
/// with "ssm".
bool fits(std::string_view pattern, std::string_view name) {
  const bool is_ending = pattern.starts_with('*');
  const bool is_beginning = pattern.ends_with('*');
  const std::string_view part =
      pattern.substr(is_ending ? 1 : 0, pattern.size() - (is_ending ? 1 : 0) - (is_beginning ? 1 : 0));
  if (is_ending && is_beginning) return name.find(part) != std::string_view::npos;
  if (is_beginning) return name.starts_with(part);
  return is_ending ? name.ends_with(part) : name == part;
}

bool has_name(const HuggingFaceFamily& family, std::string_view name) {
  std::string_view names = family.names;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (fits(names.substr(0, end), name)) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

const HuggingFaceFamily* find_family(std::string_view model_type) {
  const std::string name = folded(model_type);
  // The search begins at the end with the families that cannot be priced. Their exact names must take
  // precedence over patterns such as "qwen3*".
  const auto found = std::find_if(kFamilies.rbegin(), kFamilies.rend(),
                                  [&](const HuggingFaceFamily& family) { return has_name(family, name); });
  return found == kFamilies.rend() ? nullptr : &*found;
}

// Reads which layers have experts and which have a window. A configuration states this by steps, by lists, or
// not at all. Each family has its own key names, so the code can read the keys of all families.

namespace {

constexpr Range kIndex{.least = 0, .most = 1 << 16};

// --- which layers have experts --------------------------------------------------------------------------

/// The steps and lists of all families. An absent one has no effect.
struct ExpertLayers {
  std::int64_t first = 0;              ///< the layers before it are dense
  std::optional<std::int64_t> last;    ///< the layers after it are dense
  std::int64_t every = 1;              ///< DeepSeek: layers 0, n, 2n, .. have experts
  std::int64_t step = 1;               ///< Qwen, Llama, Ernie: layers n - 1, 2n - 1, .. have experts
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

/// Reads the layers with experts. `moe_layer_freq` is a step in DeepSeek's configurations and a list of
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

/// The windows of layers in which a query does not see all tokens. 0 means that it sees all.
struct Windows {
  std::int64_t sliding = 0;
  std::int64_t chunked = 0;
};

/// Returns the window of a layer type (0 means all tokens), or nothing for a type without attention.
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

/// Returns the windows of Llama 4's layers. Layers without rotary positions see all tokens, and the others
/// see their chunk.
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

/// Returns n if every n-th layer sees all tokens. The configuration has a number such as 6, or a word such as
/// EXAONE's "LLLG".
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
  // On average a token sees half of its chunk. A window of half the chunk's size has the same work.
  const Windows windows{.sliding = config.size_if_any({"sliding_window"}, kModelSize).value_or(0),
                        .chunked = config.size_if_any({"attention_chunk_size"}, kModelSize).value_or(0) / 2};
  const bool is_on = config.flag({"use_sliding_window"}).value_or(!family.windows_by_switch);
  const std::int64_t first = config.size({"max_window_layers"}, kIndex).value_or(0);
  const std::int64_t full_every = full_every_of(config, family);
  // The most explicit statement decides: first a type for each layer, then chunks, then steps. All keys were
  // read above, so that none remains unknown.
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
