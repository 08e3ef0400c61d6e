// Reads a model from the configuration file of a Hugging Face checkpoint. First the ignored keys are removed,
// then the known keys are read. If a remaining key names a structure whose cost cannot be computed, the file
// is refused. One message names all such keys.

#include "scenarios/read/load_architecture.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/host/library_texts.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/huggingface.hpp"
#include "scenarios/read/reader.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

// --- the family -----------------------------------------------------------------------------------------

/// Returns the model type of a class name: "Qwen3Moe" for "Qwen3MoeForCausalLM".
std::string type_of_class(std::string name) {
  for (const std::string_view ending : {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model"}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

/// Returns the model type. It comes from `model_type`. If this is absent or unknown, it comes from the
/// class name in `architectures`. Users' own checkpoints often have an unknown type but a known class.
/// Returns an empty text if neither is stated.
std::string type_of(HuggingFaceConfig& config) {
  std::string type = config.word({"model_type"});
  const Node* classes = config.find({"architectures"});
  const bool has_class = classes != nullptr && !classes->items.empty();
  std::string name = has_class ? type_of_class(classes->items.front().text) : "";
  const bool is_by_class = find_family(type) == nullptr && (type.empty() || find_family(name) != nullptr);
  return is_by_class ? name : type;
}

/// The keys that identify the family of a model whose type is unknown. The first entry whose keys all have
/// a value in the file decides.
struct TellingKeys {
  std::array<std::string_view, 2> keys;
  std::string_view family;
};

constexpr auto kTellingKeys = std::to_array<TellingKeys>({
    {{"mamba_num_heads", "hybrid_override_pattern"}, "nemotron_h"},
    {{"mamba_num_heads", "layers_block_type"}, "nemotron_h"},
    {{"linear_num_value_heads", "linear_key_head_dim"}, "qwen3_next"},
    {{"linear_attn_config", "kv_lora_rank"}, "kimi_linear"},
    {{"block_configs", "num_attention_heads"}, "nemotron-nas"},
    {{"index_topk", "kv_lora_rank"}, "deepseek_v32"},
    {{"n_embd", "rotary_dim"}, "gptj"},
    {{"n_embd", "multi_query"}, "gpt_bigcode"},
    {{"n_embd", "n_positions"}, "gpt2"},
    {{"ffn_dim", "do_layer_norm_before"}, "opt"},
    {{"rotary_pct", "intermediate_size"}, "gpt_neox"},
    {{"new_decoder_architecture", "parallel_attn"}, "falcon"},
    {{"swiglu_limit", "num_local_experts"}, "gpt_oss"},
    {{"interleave_moe_layer_step", "attention_chunk_size"}, "llama4"},
    {{"rope_local_base_freq", "query_pre_attn_scalar"}, "gemma3"},
    {{"attn_logit_softcapping", "query_pre_attn_scalar"}, "gemma2"},
    {{"shared_expert_intermediate_size", "decoder_sparse_step"}, "qwen2_moe"},
    {{"decoder_sparse_step", "head_dim"}, "qwen3_moe"},
    {{"max_window_layers", "head_dim"}, "qwen3"},
    {{"max_window_layers", "use_sliding_window"}, "qwen2"},
    {{"scoring_func", "kv_lora_rank"}, "deepseek_v2"},
});

/// Returns the family that the keys of a file identify, or "llama" if they identify none.
std::string_view family_by_keys(HuggingFaceConfig& config) {
  const auto fits = [&](const TellingKeys& row) {
    return std::ranges::all_of(row.keys, [&](std::string_view key) { return config.has(key); });
  };
  const auto found = std::ranges::find_if(kTellingKeys, fits);
  return found == kTellingKeys.end() ? "llama" : found->family;
}

// --- the configuration ----------------------------------------------------------------------------------

/// Removes the keys that the user wants to ignore. This function must run before any key is read, so that the
/// ignored keys have no effect.
void ignore(HuggingFaceConfig& config, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key == "model_type") config.ignore("architectures");  // this key also names the type
    if (config.ignore(key) || config.keys().empty()) continue;
    config.complain(
        config.root(), "ignore",
        fmt::format("expected a key of this file, got \"{}\"{}", key, did_you_mean(key, config.keys())));
  }
}

void note_family(HuggingFaceConfig& config, const HuggingFaceFamily& family, std::string_view type) {
  if (family.unpriced.empty()) return;
  const Node* by_type = config.find({"model_type"});
  const Node* place = by_type != nullptr ? by_type : config.find({"architectures"});
  config.add_unpriced(*place, by_type != nullptr ? "model_type" : "architectures",
                      fmt::format("{}: {}", type, family.unpriced));
}

/// Adds one error that names all keys whose costs cannot be computed. The error has the file position of the
/// first of these keys.
void refuse_unpriced(const HuggingFaceConfig& config, Problem& problem) {
  const std::vector<UnpricedKey> unpriced = config.unpriced();
  if (unpriced.empty()) return;
  std::vector<std::string> descriptions;
  std::vector<std::string> keys;
  for (const UnpricedKey& one : unpriced) {
    descriptions.push_back(one.description);
    if (std::ranges::find(keys, one.key) == keys.end()) keys.push_back(one.key);
  }
  problem.note(
      *unpriced.front().place, "",
      fmt::format("structure that is not priced: {}; to price the model as if it had none of these "
                  "keys write `ignore: [{}]` under `model:`, or --ignore {}",
                  fmt::join(descriptions, ", "), fmt::join(keys, ", "), fmt::join(keys, " --ignore ")));
}

/// Returns true if an ignored key may describe the layers. The number of parameters in the layers may then
/// be wrong.
bool may_change_layers(std::string_view key) { return !is_without_price(key) && !is_other_part(key); }

/// Returns the note about ignored keys. It says that the parameters of all layers are uncertain, except
/// those of the embedding and the head.
std::string note_of_ignored(std::string_view name, const ArchitecturePart& part) {
  std::string note =
      fmt::format("{} is priced as if it had no {} (ignore)", name, fmt::join(part.ignored, ", "));
  if (std::ranges::none_of(part.ignored, may_change_layers)) return note;
  const Architecture& model = part.architecture;
  std::int64_t in_layers = 0;
  for (const LayerGroup& group : layer_groups(model))
    in_layers += group.count * layer_parameters(model, group.kind);
  const std::int64_t all = parameters(model);
  return fmt::format(
      "{}: the layers may differ, and they have {:.0f} % of the {:.4g} million parameters, so the count may "
      "be "
      "off by that much or, if layers lack parameters, by more",
      note, 100 * static_cast<double>(in_layers) / static_cast<double>(all), static_cast<double>(all) / 1e6);
}

std::vector<std::string> notes_of(const HuggingFaceConfig& config, const ArchitecturePart& part,
                                  std::string_view by_keys) {
  const std::string& name = config.root().source->name;
  const std::string& type = part.architecture.family;
  std::vector<std::string> notes;
  if (!part.ignored.empty()) notes.push_back(note_of_ignored(name, part));
  if (const std::vector<std::string> others = config.other_parts(); !others.empty()) {
    notes.push_back(fmt::format("{}: only the text model is counted and priced, without {}", name,
                                fmt::join(others, ", ")));
  }
  if (!type.empty() && find_family(type) == nullptr) {
    notes.push_back(fmt::format("{}: the model type {} is not known: read by its keys, as a model like {}",
                                name, type, by_keys));
  }
  if (const std::vector<std::string> unknown = config.unknown(); !unknown.empty()) {
    notes.push_back(fmt::format("{}: unknown keys, taken to change neither sizes nor work: {}", name,
                                fmt::join(unknown, ", ")));
  }
  return notes;
}

/// Reads the model of a file, before the scenario changes its sizes.
ArchitecturePart read_config(Node root, std::vector<std::string> ignored, Problem& problem) {
  Problem of_config;
  HuggingFaceConfig config(std::move(root), of_config);
  ignore(config, ignored);
  const std::string type = type_of(config);
  const HuggingFaceFamily* known = find_family(type);
  const std::string_view by_keys = family_by_keys(config);
  const HuggingFaceFamily& family = known != nullptr ? *known : *find_family(by_keys);
  note_family(config, family, type);
  ArchitecturePart part{.architecture = architecture_of(config, family), .ignored = std::move(ignored)};
  part.architecture.family = type;
  if (layer_groups(part.architecture).size() > kMostLayerKinds) {
    config.complain(config.root(), "",
                    fmt::format("expected at most {} kinds of layers, got more", kMostLayerKinds));
  }
  if (!of_config.found()) refuse_too_large(part.architecture, config.root(), "", of_config);
  // This error comes first, because an unsupported structure often also causes errors about missing sizes.
  refuse_unpriced(config, problem);
  problem.note(of_config);
  // Notes contain parameter counts, which may overflow or miss parts if the model has errors. A model with
  // errors therefore has no notes.
  if (!problem.found()) part.notes = notes_of(config, part, by_keys);
  return part;
}

/// Parses a configuration file. If the text is no mapping, it adds an error and returns nothing.
std::optional<Node> parse_config(std::string_view text, const NamedFile& file, Problem& problem) {
  auto config = parse_document(text, std::make_shared<const Source>(Source{
                                         .name = file.name,
                                         .directory = file.path.parent_path(),
                                         .override_key = "",
                                     }));
  if (!config) {
    problem.note(config.error());
    return std::nullopt;
  }
  if (config->kind == Node::Kind::mapping) return *std::move(config);
  problem.note(*config, "", "expected a model's configuration {...}, got " + describe(*config));
  return std::nullopt;
}

// --- changes by the scenario or by flags ------------------------------------------------------------------

/// Returns true if `sequence` states one length for each microbatch, and not a single length.
bool is_by_microbatch(const Node* sequence) {
  return sequence != nullptr && sequence->kind == Node::Kind::mapping;
}

/// Returns the keys that the value of `ignore` names. This value is one key or a list of keys.
std::vector<std::string> ignored_keys(const MappingReader& wishes) {
  const Node* value = wishes.find("ignore");
  if (value != nullptr && value->kind == Node::Kind::scalar) return {value->text};
  return wishes.words("ignore").value_or(std::vector<std::string>{});
}

std::optional<ArchitecturePart> part_of(std::string_view text, const NamedFile& file,
                                        const MappingReader& wishes, Problem& problem) {
  const std::size_t before = problem.count();
  std::optional<Node> config = parse_config(text, file, problem);
  if (!config) return std::nullopt;
  ArchitecturePart part = read_config(*std::move(config), ignored_keys(wishes), problem);
  if (problem.count() > before) return std::nullopt;
  Architecture& model = part.architecture;
  const auto most_layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t most_tokens = model.positions > 0 ? model.positions : 1 << 24;
  const auto layers = wishes.integer("layers", {.least = 1, .most = most_layers});
  // The first layers are retained, because in a model with experts the dense layers are usually the first
  // ones.
  model.layers.resize(static_cast<std::size_t>(layers.value_or(most_layers)));
  model.multi_token = wishes.integer("multi_token").value_or(0);
  if (const Node* sequence = wishes.find("sequence"); is_by_microbatch(sequence)) {
    part.sequences = read_sequences(*sequence, wishes.path_of("sequence"), problem);
    if (!part.sequences.empty()) part.sequence = std::ranges::max(part.sequences);
    if (part.sequence.value_or(0) > most_tokens) {
      wishes.complain("sequence",
                      fmt::format("expected at most {} tokens, which have positions", most_tokens));
    }
  } else {
    part.sequence = wishes.integer("sequence", {.least = 1, .most = most_tokens});
  }
  if (problem.count() > before) return std::nullopt;
  return part;
}

/// Returns an entry for the `model:` mapping as if the user had written `key: value` there. Error messages
/// about this entry name the flag.
Node::Entry entry_of(std::string_view key, std::string_view flag, Node value) {
  const auto source = std::make_shared<const Source>(
      Source{.name = std::string(flag), .directory = {}, .override_key = fmt::format("model.{}", key)});
  Node name;
  name.kind = Node::Kind::scalar;
  name.text = key;
  name.source = source;
  value.source = source;
  for (Node& item : value.items) item.source = source;
  return {.key = std::move(name), .value = std::move(value)};
}

Node scalar_of(std::string text) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.text = std::move(text);
  return node;
}

Node list_of(const std::vector<std::string>& words) {
  Node node;
  node.kind = Node::Kind::list;
  for (const std::string& word : words) node.items.push_back(scalar_of(word));
  return node;
}

/// Returns a `model:` mapping with the values of the flags. Flags and scenarios then have the same ranges
/// and error messages.
Node model_of(const ArchitectureRequest& request) {
  Node model;
  model.kind = Node::Kind::mapping;
  const auto add = [&](std::string_view key, std::string_view flag,
                       const std::optional<std::int64_t>& number) {
    if (number) model.entries.push_back(entry_of(key, flag, scalar_of(std::to_string(*number))));
  };
  add("layers", "--layers", request.layers);
  add("multi_token", "--multi-token", request.multi_token);
  add("sequence", "--sequence", request.sequence);
  if (!request.ignore.empty())
    model.entries.push_back(entry_of("ignore", "--ignore", list_of(request.ignore)));
  return model;
}

}  // namespace

std::vector<std::int64_t> read_sequences(const Node& node, std::string_view path, Problem& problem) {
  static constexpr std::array kKeys = {
      Key{.name = "microbatches", .kind = KeyKind::integer, .range = kModelSize, .values = KeyValues::list}};
  const std::size_t before = problem.count();
  const MappingReader reader(node, std::string(path), kKeys, problem);
  if (problem.count() > before) return {};
  const Node* list = reader.find("microbatches");
  if (list == nullptr || list->kind != Node::Kind::list || list->items.empty()) {
    problem.note(node, path,
                 "expected {microbatches: [..]} with the tokens of each "
                 "microbatch's samples");
    return {};
  }
  const std::vector<std::int32_t> tokens = reader.integers("microbatches");
  if (problem.count() > before) return {};
  return {tokens.begin(), tokens.end()};
}

std::vector<std::string_view> library_configs() {
  std::vector<std::string_view> names;
  for (const LibraryText& text : library_texts()) {
    // The library also has YAML and CSV texts. Only the configurations are JSON objects, which begin with a
    // brace.
    if (text.text.starts_with('{')) names.push_back(text.name);
  }
  return names;
}

bool is_library_config(const std::filesystem::path& path, std::string_view name) {
  const std::vector<std::string_view> names = library_configs();
  std::error_code ignored;
  return std::ranges::find(names, name) != names.end() && !std::filesystem::exists(path, ignored);
}

tl::expected<std::string, std::string> read_config_text(const std::filesystem::path& path,
                                                        const std::string& name) {
  if (is_library_config(path, name))
    return std::string(std::ranges::find(library_texts(), name, &LibraryText::name)->text);
  auto text = read_text_file(path, name);
  std::error_code ignored;
  if (!text && !std::filesystem::exists(path, ignored)) {
    const std::string stem = std::filesystem::path(name).filename().replace_extension().string();
    // The text after the point in "llama-3.1-70b" is not a file suffix, so the name is compared with and
    // without it.
    std::string hint = did_you_mean(name, library_configs());
    if (hint.empty()) hint = did_you_mean(stem, library_configs());
    text.error() += hint;
  }
  return text;
}

std::optional<ArchitecturePart> read_architecture(const MappingReader& model, Problem& problem) {
  const Node& node = *model.find("huggingface");
  if (node.kind != Node::Kind::scalar) {
    model.complain("huggingface", "expected the name of a config.json, got " + describe(node));
    return std::nullopt;
  }
  NamedFile file = named_file(node);
  // A configuration of the library is found by its name, for any folder of the scenario.
  if (is_library_config(file.path, node.text)) file.name = node.text;
  const auto text = read_config_text(file.path, file.name);
  if (text) return part_of(*text, file, model, problem);
  model.complain("huggingface", text.error());
  return std::nullopt;
}

tl::expected<ArchitecturePart, std::string> load_architecture(const ArchitectureRequest& request) {
  const NamedFile file{.path = request.config, .name = request.config};
  const auto text = request.text ? tl::expected<std::string, std::string>(*request.text)
                                 : read_config_text(file.path, file.name);
  if (!text) return tl::unexpected(text.error());
  Problem problem;
  const Node wishes = model_of(request);
  auto part =
      part_of(*text, file, MappingReader(wishes, "model", keys_beside_huggingface(), problem), problem);
  if (!part) return tl::unexpected(problem.message());
  return *std::move(part);
}

void refuse_too_large(const Architecture& model, const Node& node, std::string_view path, Problem& problem) {
  // With this limit, the bytes of parameters fit in 64 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 58;
  if (parameters(model) > kMost)
    problem.note(node, path, "expected sizes that make at most 2^58 parameters, got more");
}

bool is_plain_gpt(const Architecture& model) {
  const bool is_learned = model.positions > 0 && model.tied && model.layer_norm && !model.gated;
  const bool has_biases = model.query_key_value_bias && model.output_bias && model.feed_forward_bias;
  const bool has_own_heads = model.kv_heads == model.heads && model.heads * model.head_dim == model.hidden;
  const auto is_plain_layer = [](const LayerKind& kind) { return kind == LayerKind{}; };
  return is_learned && has_biases && has_own_heads && !model.latent && !model.query_key_norm &&
         !model.attention_sinks && !model.embedding_norm && model.norms_per_layer == 2 &&
         std::ranges::all_of(model.layers, is_plain_layer);
}

// Reads the sizes of a transformer that the scenario states itself. By default the model is a GPT: two
// projections, biases, LayerNorm, learned positions, a tied head. `gated: true` makes it a Llama: three
// projections, RMSNorm, rotary positions, no biases, an untied head. Each of these properties also has its
// own key. Both models can have experts, shared key heads and windows.

namespace {

/// The words that `norm` and `positions` accept. The first word of each list is the default of a GPT.
constexpr std::array<std::string_view, 2> kNormWords = {"layer", "rms"};
constexpr std::array<std::string_view, 2> kPositionWords = {"learned", "rotary"};
constexpr Range kFromNone{.least = 0, .most = 1 << 16};

constexpr std::array kArchitectureKeys = {
    Key{.name = "kv_heads",
        .kind = KeyKind::integer,
        .meaning = "Heads of keys and values, a divisor of heads.",
        .usual = "heads",
        .range = kModelSize},
    Key{.name = "head_dim",
        .kind = KeyKind::integer,
        .meaning = "Width of a head.",
        .usual = "hidden / heads",
        .range = kModelSize},
    Key{.name = "gated",
        .kind = KeyKind::flag,
        .meaning = "A gated feed-forward part, and the other defaults of a Llama; false: those of a GPT.",
        .usual = "false"},
    Key{.name = "norm",
        .kind = KeyKind::word,
        .meaning = "LayerNorm or RMSNorm.",
        .usual = "layer; rms where gated",
        .words = kNormWords},
    Key{.name = "biases",
        .kind = KeyKind::flag,
        .meaning = "Products have biases.",
        .usual = "true; false where gated"},
    Key{.name = "positions",
        .kind = KeyKind::word,
        .meaning = "Positions have learned embeddings, or rotate queries and keys.",
        .usual = "learned; rotary where gated",
        .words = kPositionWords},
    Key{.name = "tied",
        .kind = KeyKind::flag,
        .meaning = "The head shares the embedding's weights.",
        .usual = "true; false where gated"},
    Key{.name = "query_key_norm",
        .kind = KeyKind::flag,
        .meaning = "Queries and keys are normalised.",
        .usual = "false"},
    Key{.name = "kv_lora_rank",
        .kind = KeyKind::integer,
        .meaning = "Rank of the keys and values of latent attention (MLA), which this key switches on.",
        .usual = "none",
        .range = kModelSize},
    Key{.name = "q_lora_rank",
        .kind = KeyKind::integer,
        .meaning = "Rank of the queries of latent attention.",
        .usual = "none: one product makes the queries",
        .range = kModelSize},
    Key{.name = "qk_nope_head_dim",
        .kind = KeyKind::integer,
        .meaning = "Width of a latent head's queries and keys without positions.",
        .usual = "128",
        .range = kModelSize},
    Key{.name = "qk_rope_head_dim",
        .kind = KeyKind::integer,
        .meaning = "Width of the rotary part of a latent head's queries and keys.",
        .usual = "64",
        .range = kModelSize},
    Key{.name = "v_head_dim",
        .kind = KeyKind::integer,
        .meaning = "Width of a latent head's values.",
        .usual = "128",
        .range = kModelSize},
    Key{.name = "experts",
        .kind = KeyKind::integer,
        .meaning = "Experts of a layer.",
        .usual = "none",
        .range = kModelCount},
    Key{.name = "experts_per_token",
        .kind = KeyKind::integer,
        .meaning = "Experts that one token visits, at most experts.",
        .usual = "required with experts",
        .range = kModelCount},
    Key{.name = "expert_feed_forward",
        .kind = KeyKind::integer,
        .meaning = "Inner width of one expert.",
        .usual = "feed_forward",
        .range = kModelSize},
    Key{.name = "shared_experts",
        .kind = KeyKind::integer,
        .meaning = "Experts that all tokens visit.",
        .usual = "0",
        .range = kFromNone},
    Key{.name = "expert_groups",
        .kind = KeyKind::integer,
        .meaning = "Groups into which the experts are divided, a divisor of experts.",
        .usual = "1",
        .range = kModelCount},
    Key{.name = "expert_groups_per_token",
        .kind = KeyKind::integer,
        .meaning = "Groups whose experts one token may visit, at most expert_groups.",
        .usual = "expert_groups",
        .range = kModelCount},
    Key{.name = "dense_layers",
        .kind = KeyKind::integer,
        .meaning = "Dense layers before those with experts, at most layers.",
        .usual = "0",
        .range = kFromNone},
    Key{.name = "window",
        .kind = KeyKind::integer,
        .meaning = "Tokens that attention looks back.",
        .usual = "all",
        .range = kModelSize},
    Key{.name = "multi_token",
        .kind = KeyKind::integer,
        .meaning = "Layers of multi-token prediction, which are in no count.",
        .usual = "0",
        .range = {.least = 0, .most = 64}}};

/// Reads the attention heads. If head_dim is absent, hidden must be divisible by the number of heads. If
/// head_dim is stated, heads x head_dim may differ from hidden.
void read_heads(const MappingReader& reader, Architecture& model) {
  model.heads = reader.required_integer("heads");
  model.kv_heads = reader.integer("kv_heads").value_or(model.heads);
  if (model.heads % model.kv_heads != 0) {
    reader.complain("kv_heads", fmt::format("expected a number that divides heads, {}, got {}", model.heads,
                                            model.kv_heads));
  }
  if (!reader.has("head_dim") && !reader.has("kv_lora_rank") && model.hidden % model.heads != 0) {
    reader.complain("heads", fmt::format("expected a number that divides hidden, {}, or head_dim, got {}",
                                         model.hidden, model.heads));
  }
  model.head_dim = reader.integer("head_dim").value_or(model.hidden / model.heads);
}

/// Reads the sizes of latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). The model has it if a
/// rank of keys and values is stated. Each head then has its own keys and values, and the other widths
/// default to those of DeepSeek's models, as in Megatron-LM.
void read_latent_sizes(const MappingReader& reader, Architecture& model) {
  if (!reader.has("kv_lora_rank")) {
    for (const std::string_view key : {"q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
      if (reader.has(key)) reader.complain(key, "belongs to latent attention; state kv_lora_rank");
    }
    return;
  }
  for (const std::string_view key : {"kv_heads", "head_dim"}) {
    if (reader.has(key))
      reader.complain(key, "latent attention has its own widths; remove it, or kv_lora_rank");
  }
  model.latent = LatentAttention{.query_rank = reader.integer("q_lora_rank").value_or(0),
                                 .kv_rank = reader.integer("kv_lora_rank").value_or(1),
                                 .content_dim = reader.integer("qk_nope_head_dim").value_or(128),
                                 .rotary_dim = reader.integer("qk_rope_head_dim").value_or(64),
                                 .value_dim = reader.integer("v_head_dim").value_or(128)};
  model.kv_heads = model.heads;
  model.head_dim = model.latent->content_dim + model.latent->rotary_dim;
  model.query_key_norm = false;  // its two norms of the ranks belong to the latent attention itself
}

/// Reads the activation, norm, positions, tied weights and biases, in which a GPT and a Llama differ. Their
/// defaults depend on `gated`.
void read_style(const MappingReader& reader, Architecture& model, std::int64_t sequence) {
  model.gated = reader.flag("gated").value_or(false);
  const std::string_view norm = reader.choice_word("norm").value_or(kNormWords[model.gated ? 1 : 0]);
  model.layer_norm = norm == kNormWords[0];
  const std::string_view positions =
      reader.choice_word("positions").value_or(kPositionWords[model.gated ? 1 : 0]);
  model.positions = positions == kPositionWords[0] ? sequence : 0;
  model.tied = reader.flag("tied").value_or(!model.gated);
  const bool has_biases = reader.flag("biases").value_or(!model.gated);
  model.query_key_value_bias = has_biases;
  model.output_bias = has_biases;
  model.feed_forward_bias = has_biases;
  model.query_key_norm = reader.flag("query_key_norm").value_or(false);
}

/// Returns the experts of the model, or nothing if it has none. Without the key `experts`, every other key
/// about experts is an error.
std::optional<Experts> read_experts(const MappingReader& reader, const Architecture& model) {
  if (!reader.has("experts")) {
    for (const std::string_view key : {"experts_per_token", "expert_feed_forward", "shared_experts",
                                       "expert_groups", "expert_groups_per_token", "dense_layers"}) {
      if (reader.has(key)) reader.complain(key, "belongs to experts; say how many there are");
    }
    return std::nullopt;
  }
  Experts experts{.count = reader.integer("experts").value_or(1),
                  .inner = reader.integer("expert_feed_forward").value_or(model.feed_forward),
                  .biases = model.feed_forward_bias};
  experts.per_token = reader.required_integer("experts_per_token", {.least = 1, .most = experts.count});
  experts.shared_inner = experts.inner * reader.integer("shared_experts").value_or(0);
  experts.groups = reader.integer("expert_groups").value_or(1);
  if (experts.count % experts.groups != 0) {
    reader.complain("expert_groups", fmt::format("expected a number that divides experts, {}, got {}",
                                                 experts.count, experts.groups));
  }
  experts.groups_per_token = reader.integer("expert_groups_per_token", {.least = 1, .most = experts.groups})
                                 .value_or(experts.groups);
  return experts;
}

/// Reads the layers. All of them have the same window. The first layers may be dense, as in DeepSeek's
/// models.
void read_layers(const MappingReader& reader, Architecture& model) {
  const std::int64_t count = reader.required_integer("layers");
  const std::int64_t dense = reader.integer("dense_layers", {.least = 0, .most = count}).value_or(0);
  const std::int64_t window = reader.integer("window").value_or(0);
  for (std::int64_t i = 0; i < count; ++i)
    model.layers.push_back({.has_experts = model.experts && i >= dense, .window = window});
  // If no layer has experts, they are removed, so that they do not count among the parameters.
  if (dense == count) model.experts.reset();
}

}  // namespace

std::span<const Key> keys_of_architecture_sizes() { return kArchitectureKeys; }

std::optional<ArchitecturePart> read_architecture_sizes(const Node& transformer, Problem& problem) {
  const std::size_t before = problem.count();
  const MappingReader reader(transformer, "model.transformer", keys_of_transformer(), problem);
  if (problem.count() > before) return std::nullopt;
  refuse_keys_without_device(reader);
  Architecture model{.family = "transformer"};
  const Node* stated = reader.find("sequence");
  std::vector<std::int64_t> sequences;
  if (is_by_microbatch(stated)) sequences = read_sequences(*stated, "model.transformer.sequence", problem);
  const std::int64_t sequence =
      sequences.empty() ? reader.required_integer("sequence") : std::ranges::max(sequences);
  model.hidden = reader.required_integer("hidden");
  model.vocabulary = reader.required_integer("vocabulary");
  model.feed_forward = reader.integer("feed_forward").value_or(4 * model.hidden);
  read_heads(reader, model);
  read_style(reader, model, sequence);
  read_latent_sizes(reader, model);
  model.experts = read_experts(reader, model);
  read_layers(reader, model);
  model.multi_token = reader.integer("multi_token").value_or(0);
  refuse_too_large(model, transformer, "model.transformer", problem);
  if (problem.count() > before) return std::nullopt;
  return ArchitecturePart{
      .architecture = std::move(model), .sequence = sequence, .sequences = std::move(sequences)};
}

}  // namespace penstock
