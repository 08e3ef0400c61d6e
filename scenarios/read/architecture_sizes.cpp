// Without further keys it is a GPT: two projections, biases, LayerNorm, learned positions, a tied head.
// `gated: true` makes it a Llama: three projections, RMSNorm, rotary positions, no biases, a head of its own.
// Each of these can be said otherwise, and experts, shared key heads and windows come to either.

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
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/load_transformer.hpp"
#include "scenarios/read/ranges.hpp"
#include "scenarios/read/reader.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 15> kArchitectureKeys = {"kv_heads",
                                                                "head_dim",
                                                                "gated",
                                                                "norm",
                                                                "biases",
                                                                "positions",
                                                                "tied",
                                                                "query_key_norm",
                                                                "experts",
                                                                "experts_per_token",
                                                                "expert_feed_forward",
                                                                "shared_experts",
                                                                "dense_layers",
                                                                "window",
                                                                "multi_token"};

/// heads x head_dim is hidden where head_dim is left out, and anything where it is said.
void read_heads(const MappingReader& reader, Architecture& model) {
  model.heads = reader.required_integer("heads", kModelSize);
  model.kv_heads = reader.integer("kv_heads", kModelSize).value_or(model.heads);
  if (model.heads % model.kv_heads != 0) {
    reader.complain("kv_heads", fmt::format("expected a number that divides heads, {}, got {}", model.heads,
                                            model.kv_heads));
  }
  if (!reader.has("head_dim") && model.hidden % model.heads != 0) {
    reader.complain("heads", fmt::format("expected a number that divides hidden, {}, or head_dim, got {}",
                                         model.hidden, model.heads));
  }
  model.head_dim = reader.integer("head_dim", kModelSize).value_or(model.hidden / model.heads);
}

/// What a GPT has, or a Llama where it is gated, unless it is said otherwise.
void read_style(const MappingReader& reader, Architecture& model, std::int64_t sequence) {
  static constexpr std::array<std::pair<std::string_view, bool>, 2> kNorms = {
      {{"layer", true}, {"rms", false}}};
  static constexpr std::array<std::pair<std::string_view, bool>, 2> kPositions = {
      {{"learned", true}, {"rotary", false}}};
  model.gated = reader.flag("gated").value_or(false);
  model.layer_norm = reader.choice("norm", kNorms).value_or(!model.gated);
  model.positions = reader.choice("positions", kPositions).value_or(!model.gated) ? sequence : 0;
  model.tied = reader.flag("tied").value_or(!model.gated);
  const bool has_biases = reader.flag("biases").value_or(!model.gated);
  model.query_key_value_bias = has_biases;
  model.output_bias = has_biases;
  model.feed_forward_bias = has_biases;
  model.query_key_norm = reader.flag("query_key_norm").value_or(false);
}

/// Nothing where there are none; then keys that say something of them are problems.
std::optional<Experts> read_experts(const MappingReader& reader, const Architecture& model) {
  if (!reader.has("experts")) {
    for (const std::string_view key :
         {"experts_per_token", "expert_feed_forward", "shared_experts", "dense_layers"}) {
      if (reader.has(key)) reader.complain(key, "belongs to experts; say how many there are");
    }
    return std::nullopt;
  }
  Experts experts{.count = reader.integer("experts", kModelCount).value_or(1),
                  .inner = reader.integer("expert_feed_forward", kModelSize).value_or(model.feed_forward),
                  .biases = model.feed_forward_bias};
  experts.per_token = reader.required_integer("experts_per_token", {.least = 1, .most = experts.count});
  experts.shared_inner =
      experts.inner * reader.integer("shared_experts", {.least = 0, .most = 1 << 16}).value_or(0);
  return experts;
}

/// The first `dense_layers` are dense, as DeepSeek's; one window serves all.
void read_layers(const MappingReader& reader, Architecture& model) {
  const std::int64_t count = reader.required_integer("layers", kModelCount);
  const std::int64_t dense = reader.integer("dense_layers", {.least = 0, .most = count}).value_or(0);
  const std::int64_t window = reader.integer("window", kModelSize).value_or(0);
  for (std::int64_t i = 0; i < count; ++i)
    model.layers.push_back({.has_experts = model.experts && i >= dense, .window = window});
  // Experts that no layer has would count among the parameters.
  if (dense == count) model.experts.reset();
}

}  // namespace

std::span<const std::string_view> keys_of_architecture_sizes() { return kArchitectureKeys; }

std::optional<ArchitecturePart> read_architecture_sizes(const Node& transformer, Problem& problem) {
  const std::size_t before = problem.count();
  const MappingReader reader(transformer, "model.transformer", keys_of_transformer(), problem);
  if (problem.count() > before) return std::nullopt;
  refuse_keys_without_device(reader);
  Architecture model{.family = "transformer"};
  const std::int64_t sequence = reader.required_integer("sequence", kModelSize);
  model.hidden = reader.required_integer("hidden", kModelSize);
  model.vocabulary = reader.required_integer("vocabulary", kModelSize);
  model.feed_forward = reader.integer("feed_forward", kModelSize).value_or(4 * model.hidden);
  read_heads(reader, model);
  read_style(reader, model, sequence);
  model.experts = read_experts(reader, model);
  read_layers(reader, model);
  model.multi_token = reader.integer("multi_token", {.least = 0, .most = 64}).value_or(0);
  refuse_too_large(model, transformer, "model.transformer", problem);
  if (problem.count() > before) return std::nullopt;
  return ArchitecturePart{.architecture = std::move(model), .sequence = sequence};
}

}  // namespace penstock
