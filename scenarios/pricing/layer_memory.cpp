// Computes the memory of layers. The table has the bytes that a layer stores for each token from the F to
// the B of a microbatch. It assumes fused attention and values of 2 bytes. h is hidden, a heads, g key
// heads of width d, f the inner width, t tensor:
//
//   inputs and outputs of two norms         8 h                    / t if the sequence is shared
//   input of a norm after a part            2 h                    likewise
//   queries, keys, values and the result    4 a d + 4 g d          / t
//   inputs of their norms, if any           2 a d + 2 g d          / t
//   attention's log-sum-exp                 4 a                    / t
//   recurrence instead of attention         kept_of_recurrence()   / t
//   feed-forward                            6 f (not gated: 4 f)   / t: fc1's output and fc2's input
//   scores of unfused attention             5 a seq                / t: softmax, dropout and its mask
//
// If f = 4 h, a block with LayerNorm and dropouts holds 34 h + 5 a seq (Korthikanti et al., MLSys'23, table
// 2). Fused attention has no scores. If B is split, W needs the inputs of products and the gradients of their
// outputs. Together they have as many bytes as before, so I releases only scores (Qi et al., ICLR'24, table
// 1). Recomputation changes only the bytes from F to I. From I to W a layer holds the same bytes as without
// recomputation. Tested by pricing_test.cpp.

#include "scenarios/pricing/layer_memory.hpp"

#include <algorithm>
#include <cstdint>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

constexpr double kValueBytes = 2;
constexpr std::int64_t kVocabularyMultiple = 128;

/// Returns the number of devices among which the values of norms, adds and dropouts are divided. This is
/// the size of the tensor group with sequence parallelism, and 1 without.
double sequence_ways(const Parallel& parallel) {
  return parallel.sequence_parallel ? static_cast<double>(parallel.tensor) : 1;
}

/// Returns the parameters of one norm, including the biases of LayerNorm.
double norm_parameters(const Architecture& model) {
  return as_double(model.hidden * (model.layer_norm ? 2 : 1));
}

/// Returns the weights of a layer that every device of a tensor group stores in full.
double replicated_parameters(const Architecture& model, const LayerKind& kind) {
  double replicated = as_double(model.norms_per_layer) * norm_parameters(model);
  if (kind.has_attention && model.query_key_norm) replicated += as_double(2 * model.head_dim);
  // All heads share the projections to the narrow ranks, so every device holds them. Only the projections
  // from these ranks are divided by head.
  if (kind.has_attention && model.latent) {
    const LatentAttention& latent = *model.latent;
    replicated += as_double(model.hidden * (latent.query_rank + latent.kv_rank + latent.rotary_dim) +
                            latent.query_rank + latent.kv_rank);
  }
  // Every device holds the whole indexer, because all heads attend to the same keys.
  if (kind.has_indexer) {
    const Indexer& indexer = *model.indexer;
    const bool is_narrow = model.latent && model.latent->query_rank > 0;
    replicated +=
        as_double((is_narrow ? model.latent->query_rank : model.hidden) * indexer.heads * indexer.head_dim +
                  (model.hidden + 2) * indexer.head_dim + model.hidden * indexer.heads);
  }
  if (kind.has_recurrence) {
    replicated += as_double(model.hidden * (model.recurrence->gate_rank + model.recurrence->decay_rank));
  }
  // Every device holds the router, because it chooses experts for its own tokens.
  if (kind.has_experts) {
    replicated += as_double(model.experts->count * (model.hidden + (model.experts->router_bias ? 1 : 0)));
  }
  return replicated;
}

/// Returns the weights of key heads that are stored more than once. Key heads are copied if a tensor group
/// has more devices than key heads.
double copied_key_heads(const Workload& work, const LayerKind& kind) {
  if (work.model.latent || !kind.has_attention) return 0;
  const double missing = work.parallel.tensor - as_double(work.model.kv_heads);
  const std::int64_t value_dim = work.model.shares_values ? 0 : work.model.head_value_dim();
  const std::int64_t of_head = work.model.head_dim + value_dim;
  return std::max(0.0, missing) * as_double(of_head * work.model.hidden);
}

double padded_vocabulary(const Workload& work) {
  // The vocabulary is padded. The number of rows on each device of a tensor group is then a multiple of 128.
  const std::int64_t multiple = kVocabularyMultiple * work.parallel.tensor;
  return as_double((work.model.vocabulary + multiple - 1) / multiple * multiple);
}

/// Returns the number of rows (tokens times chosen experts) that a device's experts compute for one
/// microbatch.
double expert_rows(const Workload& work) {
  return work.tokens() * as_double(work.model.experts->per_token) / sequence_ways(work.parallel);
}

/// Returns the bytes for each token that the gate of attention stores until the backward pass: the gate and
/// the gated result. The result before the gate is stored as well, but is not counted here.
double kept_of_gate(const Architecture& model, double value_dim) {
  const double heads = as_double(model.heads);
  switch (model.attention_gate) {
    case AttentionGate::none:
      return 0;
    case AttentionGate::per_head:
      return kValueBytes * heads * (1 + value_dim);
    case AttentionGate::per_value:
      return 2 * kValueBytes * heads * value_dim;
  }
  return 0;
}

/// Returns the bytes for each token that attention stores on one device until the backward pass. With
/// latent attention, every device stores the narrow queries, keys and values, before and after their norms.
/// It also stores the values of its own heads.
double kept_of_attention(const Workload& work) {
  const Architecture& model = work.model;
  const double t = work.parallel.tensor;
  const double heads = as_double(model.heads);
  if (model.latent) {
    const LatentAttention& latent = *model.latent;
    const double narrow = 2 * as_double(2 * latent.query_rank + 2 * latent.kv_rank + latent.rotary_dim);
    const double key_dim = as_double(latent.content_dim + latent.rotary_dim);
    const double value_dim = as_double(latent.value_dim);
    const double result = 2 * heads * value_dim + 4 * heads + kept_of_gate(model, value_dim);
    if (work.recompute.has(RecomputedPart::mla_up_proj)) return narrow + result / t;
    return narrow + (4 * heads * key_dim + 2 * heads * value_dim + result) / t;
  }
  const double dim = as_double(model.head_dim);
  const double value_dim = as_double(model.head_value_dim());
  const double kv_heads = as_double(model.kv_heads);
  const double normed = model.query_key_norm ? 2 * (heads + kv_heads) * dim : 0;
  const double exchanged =
      work.parallel.context > 1 && work.parallel.context_exchange == ContextExchange::all_to_all
          ? 2 * heads * dim
          : 0;
  return (2 * (heads + kv_heads) * (dim + value_dim) + 4 * heads + normed + exchanged +
          kept_of_gate(model, value_dim)) /
         t;
}

/// Returns the bytes for each token that a recurrence stores on one device until the backward pass. These
/// are the columns of its input projection, its result before and after the gated norm, and 4 bytes for
/// each value of a head. The delta rule also stores the convolution's result and the solution of each
/// chunk's triangular system. Other kernels compute the convolution again
/// (mamba_split_conv1d_scan_combined).
double kept_of_recurrence(const Workload& work) {
  const RecurrentMixer& recurrence = *work.model.recurrence;
  const double heads = as_double(recurrence.value_heads);
  const double of_delta =
      recurrence.delta_rule ? 2 * as_double(recurrence.convolved()) + 2 * as_double(recurrence.chunk) * heads
                            : 0;
  const double decays = recurrence.decay_rank > 0 ? 4 * as_double(recurrence.keys()) : 0;
  return (2 * as_double(recurrence.input_columns()) + 4 * as_double(recurrence.values()) +
          4 * as_double(recurrence.head_inputs) * heads + of_delta + decays) /
         work.parallel.tensor;
}

/// Returns the bytes for each token that an indexer stores until the backward pass. These are its queries,
/// its key, the weights of its heads, and the numbers of the selected keys (4 bytes each).
double kept_of_indexer(const Workload& work, const LayerKind& kind) {
  const Indexer& indexer = *work.model.indexer;
  return 2 * as_double(indexer.heads * indexer.head_dim + indexer.head_dim + indexer.heads) +
         4 * as_double(std::min(kind.selected, work.seen()));
}

/// The bytes for each score that a layer with unfused attention stores until the backward pass. The softmax
/// and the output of dropout take 2 bytes each, and a mask takes 1.
constexpr double kHeldScoreBytes = 5;
/// The bytes for each score that the gradients of softmax and dropout take while a layer's backward pass
/// runs.
constexpr double kScoreGradientBytes = 4;

/// Returns the number of attention scores that a layer stores on one device. It is 0 if the layer has no
/// attention, or if a fused kernel never stores scores.
double stored_scores(const Workload& work, const LayerKind& kind) {
  if (!kind.has_attention || traits_of(work.framework).fused_attention) return 0;
  return work.tokens() * as_double(work.model.heads * work.seen()) / work.parallel.tensor;
}

/// Returns true if the backward pass computes the attention scores again.
bool recomputes_scores(LayerRecompute recompute) {
  return recompute.has(RecomputedPart::selective) || recompute.has(RecomputedPart::full);
}

/// Returns the bytes for each token of the output of fc1, the first feed-forward product. If fc1 is gated,
/// its output contains gate and value.
double first_product_bytes(const Architecture& model, double inner) {
  return (model.gated ? 2 : 1) * kValueBytes * inner;
}

/// Returns the bytes for each token of fc1's output and fc2's input, the two feed-forward products.
/// Recomputed bytes do not count. `inner` is the number of columns on this device.
double kept_of_feed_forward(const Workload& work, double inner) {
  double values = first_product_bytes(work.model, inner) + kValueBytes * inner;
  if (work.recompute.has(RecomputedPart::activation)) values -= kValueBytes * inner;
  if (work.recompute.has(RecomputedPart::mlp)) values -= first_product_bytes(work.model, inner);
  return values;
}

/// Returns the bytes that a layer of experts stores. They consist of the rows that the experts receive and
/// compute, the scores and probabilities of all experts (4 bytes each), and the bytes of the shared expert.
double kept_of_experts(const Workload& work) {
  const Experts& experts = *work.model.experts;
  const LayerRecompute recompute = work.recompute;
  if (recompute.has(RecomputedPart::moe))
    return 0;  // the input is the output of a norm, and the norm's memory contains it
  const double inner = as_double(experts.inner);
  const double shared = as_double(experts.shared_inner) / work.parallel.tensor;
  // The option `mlp` recomputes only the dense part and not the grouped products (layer_terms.cpp), so
  // grouped products save no bytes.
  const bool drops_activation =
      recompute.has(RecomputedPart::activation) || recompute.has(RecomputedPart::moe_act);
  const double routed = first_product_bytes(work.model, inner) + (drops_activation ? 0 : kValueBytes * inner);
  const double of_shared =
      recompute.has(RecomputedPart::shared_experts) ? 0 : kept_of_feed_forward(work, shared);
  return expert_rows(work) * (2 * as_double(work.model.expert_width()) + routed) +
         work.tokens() * as_double(experts.count) * 8 + work.tokens() * of_shared;
}

}  // namespace

// --- parameters -----------------------------------------------------------------------------------------

DeviceParameters layer_device_parameters(const Workload& given, const LayerKind& kind) {
  const LayerWorkload sized(given, kind);
  const Workload& work = *sized;
  const double experts = as_double(expert_parameters(given.model, kind));
  const double replicated = replicated_parameters(work.model, kind);
  const double shared = as_double(layer_parameters(given.model, kind)) - experts - replicated;
  return {.dense = replicated + (shared + copied_key_heads(work, kind)) / work.parallel.tensor,
          .expert = experts / work.parallel.expert};
}

DeviceParameters embedding_device_parameters(const Workload& work) {
  const double hidden = as_double(work.model.hidden);
  const double norm = work.model.embedding_norm ? norm_parameters(work.model) : 0;
  return {.dense = padded_vocabulary(work) * hidden / work.parallel.tensor +
                   as_double(work.model.positions) * hidden + norm};
}

DeviceParameters head_device_parameters(const Workload& work, bool beside_embedding) {
  const double norm = norm_parameters(work.model);
  const bool shares = work.model.tied && beside_embedding;
  const double rows = padded_vocabulary(work) / work.parallel.tensor;
  return {.dense =
              norm + (shares ? 0 : rows * as_double(work.model.hidden)) + (work.model.head_bias ? rows : 0)};
}

DeviceParameters multi_token_device_parameters(const Workload& work) {
  DeviceParameters parameters = layer_device_parameters(work, prediction_kind(work.model));
  const double hidden = as_double(work.model.hidden);
  // A multi-token-prediction layer also has a projection from 2h to h, and three norms.
  parameters.dense += 2 * hidden * hidden / work.parallel.tensor + 3 * norm_parameters(work.model);
  return parameters;
}

double weight_bytes(const Workload& work) {
  if (work.precision == GemmPrecision::bf16) return kValueBytes;
  // Hopper's 8-bit products need both operands along k, so the backward pass needs transposed weights.
  const bool is_hopper = work.device.kernels == "H100" || work.device.kernels == "H200";
  return is_hopper ? 2 : 1;
}

// --- activations ----------------------------------------------------------------------------------------

LayerNorms norms_around(const Architecture& model) {
  const std::int64_t before = std::min<std::int64_t>(model.norms_per_layer, 2);
  return {.before = before, .behind = model.norms_per_layer - before};
}

double released_by_input(const Workload& work, const LayerKind& kind) {
  return recomputes_scores(work.recompute) ? 0 : kHeldScoreBytes * stored_scores(work, kind);
}

namespace {

/// Returns the bytes that a layer stores from F to B of a microbatch, except attention scores.
double kept_beside_scores(const Workload& given, const LayerKind& kind) {
  const LayerWorkload sized(given, kind);
  const Workload& work = *sized;
  const Architecture& model = work.model;
  const double hidden = as_double(model.hidden);
  const double ways = sequence_ways(work.parallel);
  const double tokens = work.tokens();
  if (work.recompute.has(RecomputedPart::full)) return tokens * kValueBytes * hidden / ways;
  const LayerNorms norms = norms_around(model);
  // A norm before a part stores its input and its output, because its output is the input of a product. A
  // norm after a part stores only its input, because its output is only added.
  const double before = as_double(norms.before) * (work.recompute.has(RecomputedPart::norm) ? 2 : 4);
  const double around = (before + 2 * as_double(norms.behind)) * hidden / ways;
  double mixed = kind.has_attention ? kept_of_attention(work) : 0;
  if (kind.has_recurrence) mixed += kept_of_recurrence(work);
  if (kind.has_indexer) mixed += kept_of_indexer(work, kind);
  if (kind.has_experts) return tokens * (around + mixed) + kept_of_experts(work);
  if (!kind.has_feed_forward) return tokens * (around + mixed);
  const double inner = as_double(model.feed_forward) / work.parallel.tensor;
  if (model.layer_norm && !model.gated && !model.latent && !has_own_sizes(kind)) {
    // The tensor-parallel parts do not include 10 h: the inputs of both parts and of their norms, and 2 h of
    // dropout masks. They do include 8 h of attention and 4 f. If f = 4 h and each head has its own keys, the
    // sum is the paper's 34 h.
    const double inside = 4 * as_double((model.heads + model.kv_heads) * model.head_dim);
    return tokens *
           (around + 2 * hidden / ways + inside / work.parallel.tensor + kept_of_feed_forward(work, inner));
  }
  return tokens * (around + mixed + kept_of_feed_forward(work, inner));
}

}  // namespace

double kept_bytes(const Workload& work, const LayerKind& kind) {
  return kept_beside_scores(work, kind) + released_by_input(work, kind);
}

double recomputed_bytes(const Workload& work, const LayerKind& kind) {
  Workload without = work;
  without.recompute = LayerRecompute::none;
  return kept_beside_scores(without, kind) - kept_beside_scores(work, kind);
}

WeightShapes weight_shapes(const Workload& given, const LayerKind& kind) {
  const LayerWorkload sized(given, kind);
  const Workload& work = *sized;
  const Architecture& model = work.model;
  const std::int64_t t = work.parallel.tensor;
  WeightShapes shapes;
  if (kind.has_recurrence) {
    const RecurrentMixer& recurrence = *model.recurrence;
    shapes.emplace(recurrence.input_columns() / t, model.hidden);
    shapes.emplace(model.hidden, recurrence.values() / t);
  }
  if (kind.linear_parts > 0) shapes.emplace(model.hidden / t, model.hidden);
  if (kind.has_attention && model.latent) {
    const LatentAttention& latent = *model.latent;
    const std::int64_t key_dim = latent.content_dim + latent.rotary_dim;
    if (latent.query_rank > 0) shapes.emplace(latent.query_rank, model.hidden);
    shapes.emplace(model.heads * key_dim / t, latent.query_rank > 0 ? latent.query_rank : model.hidden);
    shapes.emplace(latent.kv_rank + latent.rotary_dim, model.hidden);
    shapes.emplace(model.heads * (latent.content_dim + latent.value_dim) / t, latent.kv_rank);
    shapes.emplace(model.hidden, model.heads * latent.value_dim / t);
  } else if (kind.has_attention) {
    const std::int64_t kv_heads = std::max(model.kv_heads, t);
    const std::int64_t value_dim = model.head_value_dim();
    const std::int64_t kv_dim = model.head_dim + (model.shares_values ? 0 : value_dim);
    shapes.emplace((model.heads * model.head_dim + kv_heads * kv_dim) / t, model.hidden);
    shapes.emplace(model.hidden, model.heads * value_dim / t);
  }
  if (!kind.has_feed_forward) return shapes;
  const auto add_feed_forward = [&](std::int64_t width, std::int64_t inner) {
    shapes.emplace((model.gated ? 2 : 1) * inner, width);
    shapes.emplace(width, inner);
  };
  if (!kind.has_experts) {
    add_feed_forward(model.hidden, model.feed_forward / t);
  } else {
    add_feed_forward(model.expert_width(), model.experts->inner);
    if (model.experts->shared_inner > 0) add_feed_forward(model.hidden, model.experts->shared_inner / t);
  }
  return shapes;
}

double placeholder_bytes(const WeightShapes& shapes) {
  double bytes = 0;
  for (const auto& [rows, columns] : shapes) bytes += kValueBytes * as_double(rows * columns);
  return bytes;
}

double layer_transient_bytes(const Workload& given, const LayerKind& kind) {
  const LayerWorkload sized(given, kind);
  const Workload& work = *sized;
  const double hidden = as_double(work.model.hidden);
  const double t = work.parallel.tensor;
  const double edge = kValueBytes * work.tokens() * hidden / t;
  // While it runs, a layer needs memory for the gradients of its input and of the tensors with the inner
  // width. Experts also need a buffer for their permuted rows.
  double bytes = edge;
  if (kind.has_experts) {
    bytes += expert_rows(work) *
             (4 * as_double(work.model.experts->inner) + 8 * as_double(work.model.expert_width()));
  } else if (kind.has_feed_forward) {
    bytes += 4 * as_double(work.model.feed_forward) * work.tokens() / t;
  } else if (kind.has_recurrence) {
    bytes += 2 * as_double(work.model.recurrence->input_columns()) * work.tokens() / t;
  }
  const double of_score = kScoreGradientBytes + (recomputes_scores(work.recompute) ? kHeldScoreBytes : 0);
  return bytes + of_score * stored_scores(work, kind) + recomputed_at_once(given, kind);
}

double forward_bytes(const Workload& work, const LayerKind& kind) {
  // While the layer runs, memory holds its output and all activations that it would store for a backward
  // pass.
  const double output =
      kValueBytes * work.tokens() * as_double(work.model.hidden) / sequence_ways(work.parallel);
  return kept_bytes(work, kind) + output;
}

double cached_bytes(const Workload& given, const LayerKind& kind) {
  const LayerWorkload sized(given, kind);
  const Workload& work = *sized;
  const Architecture& model = work.model;
  const double t = work.parallel.tensor;
  double bytes = 0;
  if (kind.has_recurrence && work.before == 0) {
    // All slices of a sequence share one state. The state of a sequence replaces the keys and values of its
    // tokens. Kernels hold it in 4 bytes.
    const RecurrentMixer& recurrence = *model.recurrence;
    bytes += 4 * as_double(work.micro_batch_size) *
             as_double(recurrence.value_heads * recurrence.key_dim * recurrence.value_dim) / t;
  }
  if (!kind.has_attention) return bytes;
  const auto cached = [&](std::int64_t seen) { return kind.window > 0 ? std::min(seen, kind.window) : seen; };
  const double tokens = as_double(work.micro_batch_size) *
                        as_double(cached(work.seen()) - cached(work.before)) / work.parallel.context;
  if (kind.has_indexer) bytes += kValueBytes * tokens * as_double(model.indexer->head_dim);
  // All heads share the narrow keys and values of latent attention, so each device holds all of them.
  if (model.latent)
    return bytes + kValueBytes * tokens * as_double(model.latent->kv_rank + model.latent->rotary_dim);
  const std::int64_t of_head = model.head_dim + (model.shares_values ? 0 : model.head_value_dim());
  const double heads = std::max(1.0, as_double(model.kv_heads) / t);
  return bytes + kValueBytes * tokens * heads * as_double(of_head);
}

double recomputed_at_once(const Workload& work, const LayerKind& kind) {
  Workload without = work;
  without.recompute = LayerRecompute::none;
  if (work.recompute.has(RecomputedPart::full)) return kept_beside_scores(without, kind);
  return kind.has_experts && work.recompute.has(RecomputedPart::moe) ? kept_of_experts(without) : 0;
}

double head_transient_bytes(const Workload& work) {
  const double hidden = as_double(work.model.hidden);
  const double t = work.parallel.tensor;
  const double tokens = work.tokens();
  const double vocabulary = padded_vocabulary(work);
  // In addition to its share, each device of a tensor group holds the whole input and its gradient.
  const double logit_bytes = traits_of(work.framework).logit_bytes;
  if (work.is_forward_only()) {
    return (logit_bytes * tokens * vocabulary + 4 * tokens * hidden) / t + (t > 1 ? 2 * tokens * hidden : 0);
  }
  return (logit_bytes * tokens * vocabulary + 2 * vocabulary * hidden + 8 * tokens * hidden) / t +
         (t > 1 ? 4 * tokens * hidden : 0);
}

}  // namespace penstock
