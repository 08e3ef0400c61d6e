// The table of model families. An entry has the properties that a family's published code gives to each
// model and that no configuration states. For example, all Qwen2 models have biases on queries, keys and
// values, but no key of their configurations says so.

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/huggingface.hpp"

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
    {.names = "gemma4 gemma4text gemma4unified gemma4unifiedtext",
     .tied = true,
     .norms = 4,
     .query_key_norm = true,
     .full_every = 6,
     .head_dim = 256},
    {.names = "cohere", .tied = true, .norms = 1, .query_key_norm_kind = QueryKeyNorm::wide},
    {.names = "cohere2", .tied = true, .norms = 1, .full_every = 4},
    {.names = "olmo2", .query_key_norm = true, .query_key_norm_kind = QueryKeyNorm::wide},
    {.names = "olmo3", .query_key_norm = true, .query_key_norm_kind = QueryKeyNorm::wide, .full_every = 4},
    {.names = "olmohybrid", .query_key_norm = true, .query_key_norm_kind = QueryKeyNorm::wide},
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
    {.names = "qwen3next qwen35*",
     .query_key_norm = true,
     .attention_gate = AttentionGate::per_value,
     .shared_gate = true,
     .windows_by_switch = true,
     .attention_every = 4},
    {.names = "nemotronh nemotronhpuzzle", .gated = false, .router_bias = true, .one_part_layers = true},
    {.names = "granitemoehybrid bamba", .shared_when_dense = true},
    {.names = "falconh1", .recurrence_beside = true},
    {.names = "kimilinear", .router_bias = true},
    {.names = "minimax minimaxtext01 minimaxm1"},
    {.names = "nemotronnas decilm"},
    {.names = "mimov2*", .router_bias = true},
    {.names = "gptoss",
     .query_key_value_bias = true,
     .output_bias = true,
     .attention_sinks = true,
     .router_bias = true,
     .expert_bias = true,
     .full_every = 2},
    {.names = "deepseekv3 deepseekv32 kimik2 kimik25 glmmoedsa", .router_bias = true},
    {.names = "dots1", .query_key_norm = true, .router_bias = true, .windows_by_switch = true},
    {.names = "minimaxm2",
     .query_key_norm = true,
     .query_key_norm_kind = QueryKeyNorm::wide,
     .router_bias = true},
    {.names = "llama4 llama4text", .query_key_norm_kind = QueryKeyNorm::bare},

    // The costs of the families below cannot be computed, for the stated reason. These families are last,
    // because the search begins at the end.
    {.names = "olmo", .unpriced = "norms without weights"},
    {.names = "mpt dbrx", .unpriced = "sizes in mappings of its own"},
    {.names = "qwen chatglm gptneo", .unpriced = "sizes with meanings of its own"},
    {.names = "apertus", .unpriced = "learned activations"},
    {.names = "gemma3n*", .unpriced = "embeddings and sizes by layer"},
    {.names = "mllama*", .unpriced = "cross-attention to images"},
    {.names = "mamba* falconmamba *ssm* jamba zamba* hymba lfm2* phi4flash plamo2",
     .unpriced = "state-space layers"},
    {.names = "*recurrent* *rwkv* xlstm retnet", .unpriced = "recurrent layers or linear attention"},
    {.names = "openelm", .unpriced = "layers of different sizes"},
    {.names = "deepseekv4*", .unpriced = "compressed attention"},
    {.names =
         "bert* roberta* deberta* albert electra t5 mt5 umt5 bart mbart pegasus whisper clip* siglip* vit*",
     .unpriced = "no decoder-only transformer"},
});

/// Returns the name in lower case without separators, such as "qwen3moe" for "Qwen3_MoE".
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
  // The search begins at the end, where the families without computable costs are. Their exact names must
  // take precedence over patterns such as "qwen3*".
  const auto found = std::find_if(kFamilies.rbegin(), kFamilies.rend(),
                                  [&](const HuggingFaceFamily& family) { return has_name(family, name); });
  return found == kFamilies.rend() ? nullptr : &*found;
}

}  // namespace penstock
