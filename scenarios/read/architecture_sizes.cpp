// Reads the sizes of a transformer. Without further keys the model is a GPT: two projections, biases,
// LayerNorm, learned positions, a tied head. `gated: true` makes it a Llama: three projections, RMSNorm,
// rotary positions, no biases, an untied head. Each of these properties also has its own key. Both models can
// have experts, shared key heads and windows.

#include "scenarios/read/architecture_sizes.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/keys.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/load_transformer.hpp"
#include "scenarios/read/ranges.hpp"
#include "scenarios/read/reader.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

/// The words of `norm` and of `positions`. The first word of each applies to a GPT.
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

/// Reads the heads. If head_dim is absent, heads must divide hidden, and if it is stated, heads x head_dim is
/// free.
void read_heads(const MappingReader& reader, Architecture& model) {
  model.heads = reader.required_integer("heads");
  model.kv_heads = reader.integer("kv_heads").value_or(model.heads);
  if (model.heads % model.kv_heads != 0) {
    reader.complain("kv_heads", fmt::format("expected a number that divides heads, {}, got {}", model.heads,
                                            model.kv_heads));
  }
  if (!reader.has("head_dim") && model.hidden % model.heads != 0) {
    reader.complain("heads", fmt::format("expected a number that divides hidden, {}, or head_dim, got {}",
                                         model.hidden, model.heads));
  }
  model.head_dim = reader.integer("head_dim").value_or(model.hidden / model.heads);
}

/// Reads the properties that differ between a GPT and a Llama. Their defaults depend on `gated`.
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

/// Returns the experts, or nothing if the model has none. In this case other keys about experts are problems.
std::optional<Experts> read_experts(const MappingReader& reader, const Architecture& model) {
  if (!reader.has("experts")) {
    for (const std::string_view key :
         {"experts_per_token", "expert_feed_forward", "shared_experts", "dense_layers"}) {
      if (reader.has(key)) reader.complain(key, "belongs to experts; say how many there are");
    }
    return std::nullopt;
  }
  Experts experts{.count = reader.integer("experts").value_or(1),
                  .inner = reader.integer("expert_feed_forward").value_or(model.feed_forward),
                  .biases = model.feed_forward_bias};
  experts.per_token = reader.required_integer("experts_per_token", {.least = 1, .most = experts.count});
  experts.shared_inner = experts.inner * reader.integer("shared_experts").value_or(0);
  return experts;
}

/// Reads the layers. As in DeepSeek's models, the first `dense_layers` are dense. All layers have the same
/// window.
void read_layers(const MappingReader& reader, Architecture& model) {
  const std::int64_t count = reader.required_integer("layers");
  const std::int64_t dense = reader.integer("dense_layers", {.least = 0, .most = count}).value_or(0);
  const std::int64_t window = reader.integer("window").value_or(0);
  for (std::int64_t i = 0; i < count; ++i)
    model.layers.push_back({.has_experts = model.experts && i >= dense, .window = window});
  // Experts that no layer has would otherwise count among the parameters.
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
  const std::int64_t sequence = reader.required_integer("sequence");
  model.hidden = reader.required_integer("hidden");
  model.vocabulary = reader.required_integer("vocabulary");
  model.feed_forward = reader.integer("feed_forward").value_or(4 * model.hidden);
  read_heads(reader, model);
  read_style(reader, model, sequence);
  model.experts = read_experts(reader, model);
  read_layers(reader, model);
  model.multi_token = reader.integer("multi_token").value_or(0);
  refuse_too_large(model, transformer, "model.transformer", problem);
  if (problem.count() > before) return std::nullopt;
  return ArchitecturePart{.architecture = std::move(model), .sequence = sequence};
}

}  // namespace penstock
