// The sizes of models that configurations only name, and the recipes of Megatron Bridge.
//
// Sizes are those of the published config.json files. Recipes are those of Megatron Bridge 0.3
// (src/megatron/bridge/recipes), whose newer names state devices and precision as well:
// llama3_8b_pretrain_2gpu_h100_bf16_config is llama3_8b_pretrain_config on two devices.

#include "scenarios/import/known_models.hpp"

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

#include "scenarios/import/plan.hpp"
#include "scenarios/import/settings.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

/// The sizes of one model. All but GPT-3 are gated, with RMSNorm, rotary positions and no biases.
struct KnownModel {
  std::string_view name;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, feed_forward, vocabulary;
  bool tied = false;
  bool query_key_norm = false;
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_feed_forward = 0;
  bool is_gpt = false;
};

constexpr auto kModels = std::to_array<KnownModel>({
    {"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000},
    {"llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000},
    {"llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000},
    {"llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256},
    {"llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256},
    {"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256},
    {"llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256},
    {"llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256},
    {"llama-3-405b", 126, 16384, 128, 8, 128, 53248, 128256},
    {"llama-3.3-70b", 80, 8192, 64, 8, 128, 28672, 128256},
    {.name = "llama-3.2-1b",
     .layers = 16,
     .hidden = 2048,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 64,
     .feed_forward = 8192,
     .vocabulary = 128256,
     .tied = true},
    {.name = "llama-3.2-3b",
     .layers = 28,
     .hidden = 3072,
     .heads = 24,
     .kv_heads = 8,
     .head_dim = 128,
     .feed_forward = 8192,
     .vocabulary = 128256,
     .tied = true},
    {"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000},
    {"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064},
    {"qwen2.5-14b", 48, 5120, 40, 8, 128, 13824, 152064},
    {"qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064},
    {"qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064},
    {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, true, true},
    {"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, true, true},
    {"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, true, true},
    {"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, false, true},
    {"qwen3-14b", 40, 5120, 40, 8, 128, 17408, 151936, false, true},
    {"qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936, false, true},
    {"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 6144, 151936, false, true, 128, 8, 768},
    {"qwen3-235b-a22b", 94, 4096, 64, 4, 128, 12288, 151936, false, true, 128, 8, 1536},
    {"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, false, false, 8, 2, 14336},
    {"mixtral-8x22b", 56, 6144, 48, 8, 128, 16384, 32000, false, false, 8, 2, 16384},
    {.name = "gpt3-175b",
     .layers = 96,
     .hidden = 12288,
     .heads = 96,
     .kv_heads = 96,
     .head_dim = 128,
     .feed_forward = 49152,
     .vocabulary = 50257,
     .tied = true,
     .is_gpt = true},
});

/// Returns the letters and digits of a name in small letters.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) letters.push_back(static_cast<char>(std::tolower(byte)));
  }
  return letters;
}

/// Returns the model that a name means. The folder, the suffix of a file and words about the release do not
/// count.
const KnownModel* find_known_model(std::string_view name) {
  name = name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1);
  for (const std::string_view suffix : {".yaml", ".yml", ".json"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  std::string letters = letters_of(name);
  if (letters.starts_with("meta")) letters.erase(0, 4);
  constexpr auto kReleases =
      std::to_array<std::string_view>({"", "hf", "base", "instruct", "v01", "v02", "v03", "instructv01"});
  for (const KnownModel& model : kModels) {
    const std::string own = letters_of(model.name);
    if (!letters.starts_with(own)) continue;
    if (std::ranges::find(kReleases, std::string_view(letters).substr(own.size())) != kReleases.end())
      return &model;
  }
  return nullptr;
}

/// A recipe of Megatron Bridge. All have the distributed optimizer, overlapped gradients and bf16.
struct Recipe {
  std::string_view name;  ///< without "_pretrain_config"
  std::string_view model;
  std::int64_t tensor, stages, chunks, context, sequence, micro, global;
  std::int64_t expert = 1;
  bool tensor_overlap = false;
  bool accounts_for_ends = false;
  bool recomputes = false;
  bool defers_head = false;
};

constexpr auto kRecipes = std::to_array<Recipe>({
    {"llama32_1b", "llama-3.2-1b", 1, 1, 1, 1, 8192, 1, 512},
    {"llama32_3b", "llama-3.2-3b", 1, 1, 1, 1, 8192, 1, 512},
    {"llama3_8b", "llama-3-8b", 1, 1, 1, 2, 8192, 1, 512},
    {"llama3_8b_16k", "llama-3-8b", 4, 2, 1, 2, 16384, 1, 512},
    {"llama3_8b_64k", "llama-3-8b", 4, 2, 1, 4, 65536, 1, 512},
    {.name = "llama3_70b",
     .model = "llama-3-70b",
     .tensor = 4,
     .stages = 4,
     .chunks = 5,
     .context = 2,
     .sequence = 8192,
     .micro = 1,
     .global = 512,
     .tensor_overlap = true},
    {.name = "llama3_70b_16k",
     .model = "llama-3-70b",
     .tensor = 8,
     .stages = 2,
     .chunks = 1,
     .context = 2,
     .sequence = 16384,
     .micro = 1,
     .global = 512,
     .tensor_overlap = true},
    {.name = "llama3_70b_64k",
     .model = "llama-3-70b",
     .tensor = 8,
     .stages = 4,
     .chunks = 1,
     .context = 8,
     .sequence = 65536,
     .micro = 1,
     .global = 512,
     .tensor_overlap = true},
    {"llama31_8b", "llama-3.1-8b", 1, 1, 1, 2, 8192, 1, 512},
    {.name = "llama31_70b",
     .model = "llama-3.1-70b",
     .tensor = 4,
     .stages = 4,
     .chunks = 5,
     .context = 2,
     .sequence = 8192,
     .micro = 1,
     .global = 512,
     .tensor_overlap = true},
    {.name = "llama31_405b",
     .model = "llama-3.1-405b",
     .tensor = 8,
     .stages = 8,
     .chunks = 2,
     .context = 4,
     .sequence = 131072,
     .micro = 1,
     .global = 512,
     .tensor_overlap = true,
     .accounts_for_ends = true},
    {.name = "gpt3_175b",
     .model = "gpt3-175b",
     .tensor = 4,
     .stages = 8,
     .chunks = 6,
     .context = 1,
     .sequence = 2048,
     .micro = 2,
     .global = 2048,
     .tensor_overlap = true,
     .defers_head = true},
});

constexpr std::string_view kPretrain = "_pretrain_";

/// The parts of a recipe's name: "llama3_8b", its variant "16k", and the devices of newer names.
struct RecipeName {
  std::string base;
  std::optional<std::int64_t> devices{};
  std::string unlike{};  ///< a word of the name that the known recipe does not mean, such as "fp8cs"
};

RecipeName recipe_name(std::string_view name) {
  RecipeName parts;
  const std::size_t mark = name.find(kPretrain);
  if (mark == std::string_view::npos || !name.ends_with("config")) return parts;
  parts.base = name.substr(0, mark);
  std::string_view rest = name.substr(mark + kPretrain.size());
  for (rest.remove_suffix(std::string_view("config").size()); !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find('_'));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word.ends_with("gpu")) {
      parts.devices = number_of_text<std::int64_t>(word.substr(0, word.size() - 3));
    } else if (word.ends_with('k')) {
      parts.base += fmt::format("_{}", word);
    } else if (!word.empty() && word != "bf16" && word != "h100") {
      parts.unlike = word;
    }
  }
  return parts;
}

std::string on_or_off_word(bool on) { return on ? "true" : "false"; }

}  // namespace

bool set_known_model(Plan& plan, std::string_view name) {
  const KnownModel* model = find_known_model(name);
  if (model == nullptr) return false;
  plan.set("model.layers", model->layers);
  plan.set("model.hidden", model->hidden);
  plan.set("model.heads", model->heads);
  plan.set("model.kv_heads", model->kv_heads);
  plan.set("model.head_dim", model->head_dim);
  plan.set("model.feed_forward", model->feed_forward);
  plan.set("model.vocabulary", model->vocabulary);
  plan.set("model.gated", on_or_off_word(!model->is_gpt));
  plan.set("model.tied", on_or_off_word(model->tied));
  if (model->query_key_norm) plan.set("model.query_key_norm", "true");
  if (model->experts > 0) {
    plan.set("model.experts", model->experts);
    plan.set("model.experts_per_token", model->experts_per_token);
    plan.set("model.expert_feed_forward", model->expert_feed_forward);
  }
  return true;
}

std::string known_model_names() {
  std::vector<std::string_view> names;
  names.reserve(kModels.size());
  for (const KnownModel& model : kModels) names.push_back(model.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string_view> bridge_recipe_names() {
  std::vector<std::string_view> names;
  names.reserve(kRecipes.size());
  for (const Recipe& recipe : kRecipes) names.push_back(recipe.name);
  return names;
}

bool add_bridge_recipe(Settings& settings, Plan& plan, std::string_view name) {
  const RecipeName parts = recipe_name(name);
  const auto recipe = std::ranges::find(kRecipes, std::string_view(parts.base), &Recipe::name);
  if (recipe == kRecipes.end() || !parts.unlike.empty()) return false;
  set_known_model(plan, recipe->model);
  plan.devices = parts.devices;
  const auto number = [&](const char* key, std::int64_t value) {
    settings.add(key, fmt::format("{}", value));
  };
  number("model.tensor_model_parallel_size", recipe->tensor);
  number("model.pipeline_model_parallel_size", recipe->stages);
  if (recipe->chunks > 1) number("model.virtual_pipeline_model_parallel_size", recipe->chunks);
  number("model.context_parallel_size", recipe->context);
  if (recipe->expert > 1) number("model.expert_model_parallel_size", recipe->expert);
  settings.add("model.sequence_parallel", on_or_off_word(recipe->tensor > 1));
  number("model.seq_length", recipe->sequence);
  number("train.micro_batch_size", recipe->micro);
  number("train.global_batch_size", recipe->global);
  settings.add("mixed_precision", "bf16_mixed");
  settings.add("ddp.use_distributed_optimizer", "true");
  settings.add("ddp.overlap_grad_reduce", "true");
  settings.add("ddp.overlap_param_gather", "true");
  settings.add("comm_overlap.tp_comm_overlap", on_or_off_word(recipe->tensor_overlap));
  if (recipe->defers_head) settings.add("comm_overlap.defer_embedding_wgrad_compute", "true");
  if (recipe->accounts_for_ends) {
    settings.add("model.account_for_embedding_in_pipeline_split", "true");
    settings.add("model.account_for_loss_in_pipeline_split", "true");
  }
  if (recipe->recomputes) settings.add("model.recompute_granularity", "full");
  return true;
}

}  // namespace penstock
