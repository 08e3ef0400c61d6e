// Computes the times of a transformer layer on one device. Each step below is a term of the sum:
//
//   norm -> qkv product -> rotary -> attention -> projection -> add -> norm -> feed-forward -> add
//
// Some models have other norms: one for both parts, one after each part, or norms of queries, keys and
// latents. Times of products come from a table of kernels. Causal attention uses the rate of a fused kernel.
// Its backward pass has 2.5 times the operations at 0.85 of the rate (Dao, 2023: recomputed scores and four
// products). Times of norms, adds and activation functions are computed from the bytes that they move.
//
// Tensor parallelism with sequence parallelism gathers and scatters the layer's activations around both parts
// (Korthikanti et al., MLSys'23, section 4.2.2). It gathers once more for the weight gradients of each part.
// If these collectives overlap with the products of t devices, 1/t of their time is exposed.
// feed_forward_terms.cpp computes the feed-forward part. Tested by pricing_test.cpp.

#include "scenarios/pricing/layer_terms.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/workload.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

/// The operations of attention's backward pass, relative to its forward pass. The forward pass has two
/// products. The backward pass has five, because it computes the scores again.
constexpr double kBackwardAttentionOperations = 2.5;
/// The rate of attention's backward pass, as a share of its forward rate.
constexpr double kBackwardAttentionRate = 0.85;
/// The share of the device's peak rate that attention reaches if no table has measured it. The share also
/// applies to indexers, selected keys and recurrences, which no table contains.
constexpr double kPlainAttentionEfficiency = 0.5;
/// The head dimension whose measured rate is used for latent attention. No table has kernels in which queries
/// and keys are wider than values.
constexpr double kLatentHeadDim = 128;
// Transformer Engine runs small kernels around each step of a ring (AttnFuncWithCPAndKVP2P). The sequence is
// divided into 2c parts, and each of the c devices holds an early part and a late part. In all steps but the
// first, a device uses either only its late queries, or only the early half of the received keys and values.
// On average, a step therefore uses three quarters of the values. It copies a half of the values in half of
// the cases.

/// The bytes that the merge of a ring step's results moves for each value: 0.75 x (2 values of 2 bytes
/// read, 2 bytes written).
constexpr double kMergedBytes = 0.75 * 6;
/// The bytes that a ring step copies for each value, on average. A copy takes one half of the values, and
/// only half of the steps need it. So this is 0.5 x 0.5 x (2 bytes read, 2 written).
constexpr double kCopiedHalfBytes = 0.5 * 0.5 * 4;
/// The bytes that joining the gradients of keys and values moves for each value: 0.75 x (2 bytes read, 2
/// written).
constexpr double kJoinedBytes = 0.75 * 4;
/// The number of small kernels in each forward step of a ring: a copy, the merge of the sums of
/// exponentials, and the merge of outputs.
constexpr double kForwardRingKernels = 3;
/// The number of small kernels in each backward step of a ring. On average, 2 of them copy: either queries,
/// outputs and their gradients, or keys and values. One merges the queries' gradient, and the others join
/// and merge the gradients of keys and values.
constexpr double kBackwardRingKernels = 5;
// The zero-bubble paper (Qi et al., ICLR'24, table 5) has the times of F, I and W on A100 without fused
// attention. In ms for one layer:
//
//   model     F    I    W
//   1.5B     6.2  6.0  3.1
//   6.2B     7.4  7.4  5.0
//   14.6B    3.8  3.7  2.7
//   28.3B    5.2  5.1  3.9
//
// These W take no longer than their products, so such software hides the accumulation of weight gradients.

/// The bytes that unfused attention moves for each score in the forward pass. The first product writes the
/// scores (2). Softmax reads and writes (4), dropout reads and writes with a mask (5), and the second
/// product reads (2).
constexpr double kScoreForwardBytes = 13;
/// The bytes that unfused attention moves for each score in the backward pass. A product writes gradients
/// (2), dropout reads and writes with a mask (5), softmax reads two values and writes one (6), and a
/// product reads (2).
constexpr double kScoreBackwardBytes = 15;
/// The number of kernels between the two products of unfused attention: softmax and dropout.
constexpr int kScoreKernels = 2;
/// The share of the host's launch time that belongs to the forward pass. The backward pass launches about
/// twice as many kernels.
constexpr double kHostForwardPart = 1.0 / 3;

/// The numbers of heads and key heads that one device computes for the whole sequence.
struct DeviceHeads {
  double heads;
  double kv_heads;
  /// The share of the queries that this device computes for its heads.
  double share;
};

/// Returns the attention heads of a device under context parallelism. With an all-to-all, the heads are
/// divided among devices. With a ring, each device has all heads and a part of the queries.
DeviceHeads device_heads(const Workload& work) {
  const Parallel& parallel = work.parallel;
  const bool by_heads = parallel.context_exchange == ContextExchange::all_to_all;
  const double ways = parallel.tensor * (by_heads ? static_cast<double>(parallel.context) : 1);
  return {.heads = as_double(work.model.heads) / ways,
          .kv_heads = std::max(1.0, as_double(work.model.kv_heads) / ways),
          .share = by_heads ? 1 : 1.0 / parallel.context};
}

// --- attention --------------------------------------------------------------------------------------------

void add_attention_products(TermWriter& terms) {
  const Workload& work = terms.work();
  const Architecture& model = work.model;
  const double t = work.parallel.tensor;
  const double tokens = work.tokens();
  const double hidden = as_double(model.hidden);
  const double heads = as_double(model.heads);
  if (model.latent) {
    const LatentAttention& latent = *model.latent;
    const double query_dim = as_double(latent.content_dim + latent.rotary_dim);
    if (latent.query_rank > 0) {
      terms.gemm(
          "latents",
          {.m = tokens, .n = as_double(latent.query_rank + latent.kv_rank + latent.rotary_dim), .k = hidden});
      terms.gemm("queries", {.m = tokens, .n = heads * query_dim / t, .k = as_double(latent.query_rank)});
    } else {
      terms.gemm("latents", {.m = tokens, .n = as_double(latent.kv_rank + latent.rotary_dim), .k = hidden});
      terms.gemm("queries", {.m = tokens, .n = heads * query_dim / t, .k = hidden});
    }
    terms.gemm("keys and values", {.m = tokens,
                                   .n = heads * as_double(latent.content_dim + latent.value_dim) / t,
                                   .k = as_double(latent.kv_rank)});
    terms.gemm("projection", {.m = tokens, .n = hidden, .k = heads * as_double(latent.value_dim) / t});
    return;
  }
  const double key_dim = as_double(model.head_dim);
  const double value_dim = as_double(model.head_value_dim());
  const double kv_heads = std::max(as_double(model.kv_heads), t);  // each device has at least one key head
  const double kv_dim = key_dim + (model.shares_values ? 0 : value_dim);
  terms.gemm("qkv", {.m = tokens, .n = (heads * key_dim + kv_heads * kv_dim) / t, .k = hidden});
  terms.gemm("projection", {.m = tokens, .n = hidden, .k = heads * value_dim / t});
}

/// The width of the query and key of a head, and the width of its value and output.
struct HeadWidths {
  double key;
  double value;
};
HeadWidths head_widths(const Architecture& model) {
  if (!model.latent) return {.key = as_double(model.head_dim), .value = as_double(model.head_value_dim())};
  return {.key = as_double(model.latent->content_dim + model.latent->rotary_dim),
          .value = as_double(model.latent->value_dim)};
}

/// Returns the floating-point operations per second of FlashAttention-2 on H100, with the causal mask and
/// heads of 128 (Shah et al., 2024, figure 5). Devices before Hopper do not reach this rate, and later ones
/// were not measured.
double flash_attention_2_rate(double sequence) {
  static const LogGrid<1> measured(std::map<LogGrid<1>::Point, double>{
      {{512}, 191e12},
      {{1024}, 260e12},
      {{2048}, 298e12},
      {{4096}, 319e12},
      {{8192}, 333e12},
      {{16384}, 335e12},
  });
  return measured.at({sequence});
}

/// Returns the floating-point operations per second of attention kernels that no table has.
double plain_attention_rate(const DeviceType& device) {
  return kPlainAttentionEfficiency * device.bf16_flops_per_second / device.attention_slowdown;
}

/// Returns the number of attention scores that a layer computes for the tokens of the workload. With causal
/// attention, later slices of a sequence have more scores than earlier ones. All slices together have the
/// scores of the whole sequence.
double new_scores(const Workload& work, const LayerKind& kind) {
  return attention_scores(kind, work.seen()) - attention_scores(kind, work.before);
}

/// The seconds of attention in the forward and the backward pass. With a ring, each pass consists of
/// `steps` equal steps.
struct AttentionSeconds {
  double forward = 0;
  double backward = 0;
  double steps = 1;
};

/// Returns the number of steps in which a device computes attention. A ring computes with the keys of one
/// part of the sequence at a time.
double attention_steps(const Parallel& parallel) {
  return parallel.context_exchange == ContextExchange::ring ? parallel.context : 1;
}

/// Returns the seconds of attention: scores, softmax and the weighted sum of values.
AttentionSeconds attention_seconds(const TermWriter& terms, const LayerKind& kind) {
  const Workload& work = terms.work();
  const Architecture& model = work.model;
  const DeviceHeads heads = device_heads(work);
  const auto [key_dim, value_dim] = head_widths(model);
  const double steps = attention_steps(work.parallel);
  // A score needs one multiplication and one addition for each element of the key. The weighted sum needs the
  // same for each element of the value.
  const double operations = 2 * (key_dim + value_dim) * heads.heads * as_double(work.micro_batch_size) *
                            new_scores(work, kind) * heads.share;
  // In one step of a ring, a device with s tokens computes s^2 / 2 scores, as many as causal attention on s
  // tokens. It therefore runs at the rate of this shorter sequence.
  const double sequence = as_double(work.seen()) / steps;
  const auto measured =
      terms.kernels().attention_rate({.head_dim = model.latent ? kLatentHeadDim : key_dim,
                                      .heads = heads.heads,
                                      .kv_heads = model.latent ? heads.heads : heads.kv_heads,
                                      .batch = as_double(work.micro_batch_size),
                                      .sequence = sequence});
  const double peak = work.device.bf16_flops_per_second;
  const FrameworkTraits traits = traits_of(work.framework);
  double rate = std::min(peak, measured.value_or(kPlainAttentionEfficiency * peak));
  if (traits.flash_attention_2) rate = std::min(rate, flash_attention_2_rate(sequence));
  rate /= traits.attention_factor * work.device.attention_slowdown;
  return {.forward = operations / rate,
          .backward = kBackwardAttentionOperations * operations / (kBackwardAttentionRate * rate),
          .steps = steps};
}

/// Adds the small kernels around the steps of a ring: copies of the half that a step uses, and merges of
/// partial results. The forward pass merges outputs and their sums of exponentials. The backward pass
/// merges the gradients of queries, keys and values. Before this merge, the gradients of keys and values
/// are joined in one tensor.
void add_ring_kernels(TermWriter& terms, double steps) {
  const Workload& work = terms.work();
  const auto [key_dim, value_dim] = head_widths(work.model);
  const double heads = as_double(work.model.heads);
  const double keys_and_values =
      std::max(as_double(work.model.kv_heads), as_double(work.parallel.tensor)) * (key_dim + value_dim);
  const double queries = heads * key_dim;
  const double outputs = heads * value_dim;
  const double forward = kMergedBytes * outputs + kCopiedHalfBytes * (queries + keys_and_values);
  const double backward = kMergedBytes * (queries + keys_and_values) + kJoinedBytes * keys_and_values +
                          kCopiedHalfBytes * (queries + 2 * outputs + keys_and_values);
  const double tokens = steps * work.tokens() / work.parallel.tensor;
  const auto launch_s = [&](double kernels) {
    return steps * kernels * as_double(work.device.launch_ns) * kSecondsPerNanosecond;
  };
  terms.add({.name = "around ring steps",
             .kind = TermKind::memory,
             .forward = terms.memory_seconds(tokens * forward) + launch_s(kForwardRingKernels),
             .backward_input = terms.memory_seconds(tokens * backward) + launch_s(kBackwardRingKernels)});
}

/// Returns the seconds of attention to keys that an indexer selects. Kernels for selected keys load the
/// narrow vectors, which all heads share. So a score has 2 kv_rank + rotary_dim multiplications instead of
/// the widths of a head. For short sequences, masked attention to all keys is faster (DeepSeek-V3.2,
/// section 2.1).
AttentionSeconds selected_attention_seconds(const TermWriter& terms, const LayerKind& kind) {
  const Workload& work = terms.work();
  LayerKind without = kind;
  without.selected = 0;
  const AttentionSeconds masked = attention_seconds(terms, without);
  if (kind.selected >= work.seen()) return masked;
  const DeviceHeads heads = device_heads(work);
  const auto [key_dim, value_dim] = head_widths(work.model);
  const double width = work.model.latent
                           ? as_double(2 * work.model.latent->kv_rank + work.model.latent->rotary_dim)
                           : key_dim + value_dim;
  const double operations =
      2 * width * heads.heads * as_double(work.micro_batch_size) * new_scores(work, kind) * heads.share;
  const double forward_s = operations / plain_attention_rate(work.device);
  if (masked.forward <= forward_s) return masked;
  return {.forward = forward_s,
          .backward = kBackwardAttentionOperations / kBackwardAttentionRate * forward_s,
          .steps = masked.steps};
}

/// Adds an indexer: its projections, the scores of all pairs, and the choice of keys. Each device of a
/// tensor group has the whole indexer. The indexer's loss uses only the selected keys. So in the backward
/// pass, the two products compute only the scores of these keys. The choice reads and writes one value of 4
/// bytes for each score.
void add_indexer(TermWriter& terms, const LayerKind& kind) {
  const Workload& work = terms.work();
  const Architecture& model = work.model;
  const Indexer& indexer = *model.indexer;
  const double tokens = work.tokens();
  const double width = as_double(indexer.heads * indexer.head_dim);
  const bool is_narrow = model.latent && model.latent->query_rank > 0;
  terms.gemm("indexer queries",
             {.m = tokens, .n = width, .k = as_double(is_narrow ? model.latent->query_rank : model.hidden)});
  terms.gemm("indexer keys",
             {.m = tokens, .n = as_double(indexer.head_dim + indexer.heads), .k = as_double(model.hidden)});
  const double samples = as_double(work.micro_batch_size) / work.parallel.context;
  const double all = samples * new_scores(work, {});
  const double selected = samples * new_scores(work, kind);
  const double rate = plain_attention_rate(work.device);
  terms.add({.name = "indexer scores",
             .kind = TermKind::attention,
             .forward = 2 * width * all / rate,
             .backward_input = 2 * 2 * width * selected / rate});
  terms.memory("choice of keys", 2 * 4 * all, 0, 1);
}

/// Adds the gate on the result of attention: its matrix product and its kernel. In the forward pass, the
/// kernel reads the gate and the result and writes one value. In the backward pass, it reads three values
/// and writes two.
void add_attention_gate(TermWriter& terms) {
  const Workload& work = terms.work();
  const Architecture& model = work.model;
  if (model.attention_gate == AttentionGate::none) return;
  const double t = work.parallel.tensor;
  const double heads = as_double(model.heads) / t;
  const double values = heads * head_widths(model).value;
  const double columns = model.attention_gate == AttentionGate::per_head ? heads : values;
  terms.gemm("gate", {.m = work.tokens(), .n = columns, .k = as_double(model.hidden)});
  terms.memory("gated attention", 2 * 3 * work.tokens() * values, 2 * 5 * work.tokens() * values, 1);
}

/// Adds the exchange between the devices of a context group, as far as computation does not hide it. Latent
/// attention sends the full keys and values of every head, like Transformer Engine (AttnFuncWithCPAndKVP2P).
/// Transformer Engine has only a proposal to send the smaller latents (its pull request 2064).
void add_context_exchange(TermWriter& terms, const AttentionSeconds& attention) {
  const Workload& work = terms.work();
  const Parallel& parallel = work.parallel;
  if (parallel.context <= 1) return;
  const double t = parallel.tensor;
  const auto [key_dim, value_dim] = head_widths(work.model);
  const double each_token = key_dim + value_dim;
  if (parallel.context_exchange == ContextExchange::all_to_all) {
    // Queries, keys and values are sent to the devices of their heads, and the results of attention are sent
    // back, with 2 bytes a value.
    const double bytes =
        2 * work.tokens() * as_double(work.model.heads + work.model.kv_heads) * each_token / t;
    const double seconds =
        exposed_group_seconds(work, terms.kernels(), DeviceGroup::context, GroupOperation::all_to_all, bytes);
    terms.collective("heads for tokens", seconds, seconds);
    return;
  }
  // Keys and values of 2 bytes go to the next device while attention runs on them. This happens in all steps
  // but the last. In the backward pass the gradients of keys and values go along.
  const double bytes = 2 * work.tokens() * as_double(work.model.kv_heads) * each_token / t;
  const double sent_s =
      bytes / group_bytes_per_second(parallel, work.ranks, DeviceGroup::context, work.device);
  const double latency_s = as_double(work.device.link_latency_ns) * kSecondsPerNanosecond;
  const auto exposed = [&](double exchange_s, double pass_s) {
    return (attention.steps - 1) * std::max(0.0, exchange_s + latency_s - pass_s / attention.steps);
  };
  terms.collective("keys round the ring", exposed(sent_s, attention.forward),
                   exposed(2 * sent_s, attention.backward));
  add_ring_kernels(terms, attention.steps);
}

/// Adds attention that runs as separate kernels. Its products compute all scores, including those that the
/// causal mask discards. The backward pass has four products. Attention has no weights, so the action I
/// (gradient of the input) contains all of them.
void add_unfused_attention(TermWriter& terms) {
  const Workload& work = terms.work();
  const auto [key_dim, value_dim] = head_widths(work.model);
  const double rows = work.tokens() * as_double(work.model.heads) / work.parallel.tensor;
  const double sequence = as_double(work.seen());
  const double products_s =
      terms.product_seconds(GemmPrecision::bf16, {.m = rows, .n = sequence, .k = key_dim}) +
      terms.product_seconds(GemmPrecision::bf16, {.m = rows, .n = value_dim, .k = sequence});
  terms.add({.name = "attention",
             .kind = TermKind::attention,
             .forward = products_s,
             .backward_input = 2 * products_s});
  const double scores = rows * sequence;
  terms.memory("scores", kScoreForwardBytes * scores, kScoreBackwardBytes * scores, kScoreKernels);
}

void add_fused_attention(TermWriter& terms, const LayerKind& kind) {
  const AttentionSeconds attention =
      kind.selected > 0 ? selected_attention_seconds(terms, kind) : attention_seconds(terms, kind);
  // Attention has no weights and thus no part in W, so its whole backward pass belongs to I.
  terms.add({.name = "attention",
             .kind = TermKind::attention,
             .forward = attention.forward,
             .backward_input = attention.backward});
  add_context_exchange(terms, attention);
}

void add_attention(TermWriter& terms, const LayerKind& kind) {
  const Workload& work = terms.work();
  const Architecture& model = work.model;
  add_attention_products(terms);
  add_attention_gate(terms);
  if (kind.has_indexer) add_indexer(terms, kind);
  if (traits_of(work.framework).fused_attention) {
    add_fused_attention(terms, kind);
  } else {
    add_unfused_attention(terms);
  }
  if (model.positions > 0) return;  // learned positions are added once, before the layers
  const double rotated =
      model.latent ? as_double(3 * model.heads * (model.latent->content_dim + model.latent->rotary_dim))
                   : as_double((model.heads + 2 * model.kv_heads) * model.head_dim);
  const double bytes = 4 * work.tokens() * rotated / work.parallel.tensor;
  terms.memory("rotary positions", bytes, bytes, 1);
}

// --- recurrences ------------------------------------------------------------------------------------------

// A recurrence runs on chunks of tokens, one kernel after the other, so the times of its operations and of
// its bytes add up:
//
//   projection -> convolution -> scores in a chunk -> states of chunks -> outputs -> gated norm -> projection
//
// The kernels read keys and values three times (scores, states, outputs) and write the values once. They
// write and read the state of each chunk in 4 bytes a value. The backward pass computes states again and has
// two products for each of the forward pass. No table has measured these kernels.

/// Adds the exchanges around a recurrence under context parallelism. The first exchange gives each device all
/// tokens of some heads, and the second one reverses this. Kernels need whole sequences. So both kinds of
/// ContextExchange use an all-to-all here (Megatron-LM's Mamba mixer).
void add_recurrence_exchange(TermWriter& terms, const RecurrentMixer& recurrence) {
  const Workload& work = terms.work();
  if (work.parallel.context <= 1) return;
  const double bytes =
      2 * work.tokens() * as_double(recurrence.input_columns() + recurrence.values()) / work.parallel.tensor;
  const double seconds =
      exposed_group_seconds(work, terms.kernels(), DeviceGroup::context, GroupOperation::all_to_all, bytes);
  terms.collective("heads for tokens", seconds, seconds);
}

void add_recurrence(TermWriter& terms) {
  const Workload& work = terms.work();
  const RecurrentMixer& recurrence = *work.model.recurrence;
  const double t = work.parallel.tensor;
  const double tokens = work.tokens();
  const double hidden = as_double(work.model.hidden);
  const double keys = as_double(recurrence.keys()) / t;
  const double values = as_double(recurrence.values()) / t;
  const double convolved = as_double(recurrence.convolved()) / t;
  const double narrow = as_double(recurrence.gate_rank + recurrence.decay_rank);
  // Each device of a tensor group computes the narrow projections in full.
  terms.gemm("recurrent input",
             {.m = tokens, .n = (as_double(recurrence.input_columns()) - narrow) / t + narrow, .k = hidden});
  terms.gemm("recurrent gate", {.m = tokens, .n = values, .k = as_double(recurrence.gate_rank)});
  terms.gemm("recurrent decay", {.m = tokens, .n = keys, .k = as_double(recurrence.decay_rank)});
  if (recurrence.taps > 0) terms.memory("convolution", 4 * tokens * convolved, 6 * tokens * convolved, 1);
  const double operations = tokens * recurrence_operations(recurrence) / t;
  const double rate = kPlainAttentionEfficiency * work.device.bf16_flops_per_second;
  terms.add({.name = "recurrence",
             .kind = TermKind::attention,
             .forward = operations / rate,
             .backward_input = 2 * operations / rate});
  const double states = values * as_double(recurrence.key_dim) / as_double(recurrence.chunk);
  const double read = 3 * 2 * convolved + 2 * values;
  const double stored = 2 * 4 * states;
  terms.memory("states", tokens * (read + stored), tokens * (2 * read + 2 * stored), 3);
  terms.memory("gated norm", 2 * 3 * tokens * values, 2 * 5 * tokens * values, 1);
  terms.gemm("recurrent output", {.m = tokens, .n = hidden, .k = values});
  add_recurrence_exchange(terms, recurrence);
}

// --- norms, adds and collectives --------------------------------------------------------------------------

/// Adds `count` norms over `values` values in total. In the forward pass, a norm reads and writes 2 bytes
/// for each value.
void add_norms_of(TermWriter& terms, std::string_view name, double values, std::int64_t count) {
  if (count > 0) terms.memory(name, values * 4, values * 8, static_cast<int>(count));
}

/// Adds the norms inside attention: either those of the latents, which every device computes in full, or
/// those of each head's query and key.
void add_attention_norms(TermWriter& terms) {
  const Workload& work = terms.work();
  const Architecture& model = work.model;
  if (model.latent) {
    const double narrow = as_double(model.latent->query_rank + model.latent->kv_rank);
    add_norms_of(terms, "norms of latents", work.tokens() * narrow, model.latent->query_rank > 0 ? 2 : 1);
  } else if (model.query_key_norm) {
    const double t = work.parallel.tensor;
    const double heads = as_double(model.heads) + std::max(as_double(model.kv_heads), t);
    add_norms_of(terms, "norms of queries and keys", work.tokens() * heads * as_double(model.head_dim) / t,
                 2);
  }
}

void add_norms(TermWriter& terms, const LayerKind& kind) {
  const Workload& work = terms.work();
  const double ways = work.parallel.sequence_parallel ? work.parallel.tensor : 1;
  const double values = work.tokens() * as_double(work.model.hidden) / ways;
  const LayerNorms norms = norms_around(work.model);
  add_norms_of(terms, "norms", as_double(norms.before) * values, norms.before);
  add_norms_of(terms, "norms behind", as_double(norms.behind) * values, norms.behind);
  if (kind.has_attention) add_attention_norms(terms);
  // Each part has an add, even if both parts have the same input. An add reads two values and writes one.
  const auto parts = static_cast<int>(kind.parts());
  const FrameworkTraits traits = traits_of(work.framework);
  const double mask = traits.mask_bytes;
  if (parts > 0)
    terms.memory("residual adds", parts * values * (6 + mask), parts * values * (4 + mask), parts);
  if (traits.separate_bytes > 0) {
    terms.add({.name = "separate kernels",
               .kind = TermKind::memory,
               .backward_input = terms.memory_seconds(traits.separate_bytes * values)});
  }
}

/// Adds the collectives of tensor parallelism. They run before and after both parts of a dense layer. In a
/// layer of experts they run only around attention, because add_experts() adds the exchange of the experts'
/// rows.
void add_tensor_collectives(TermWriter& terms, const LayerKind& kind) {
  const Workload& work = terms.work();
  const Parallel& parallel = work.parallel;
  if (parallel.tensor <= 1) return;
  const auto parts = as_double(kind.parts() - (kind.has_experts ? 1 : 0));
  const double values = work.tokens() * as_double(work.model.hidden);
  const auto seconds = [&](GroupOperation operation, double value_bytes) {
    const double bytes = value_bytes * values;
    return parallel.tensor_overlap
               ? group_seconds(work, terms.kernels(), DeviceGroup::tensor, operation, bytes) / parallel.tensor
               : exposed_group_seconds(work, terms.kernels(), DeviceGroup::tensor, operation, bytes);
  };
  if (!parallel.sequence_parallel) {
    const double reduce_s = parts * seconds(GroupOperation::all_reduce, 2);
    terms.collective("tensor collectives", reduce_s, reduce_s);
    return;
  }
  const FrameworkTraits traits = traits_of(work.framework);
  const bool in_fp8 = traits.gathers_in_fp8 && work.precision != GemmPrecision::bf16;
  const double gather_s = seconds(GroupOperation::all_gather, in_fp8 ? 1 : 2);
  const double scatter_s = seconds(GroupOperation::reduce_scatter, 2);
  // The second gather is for the weight gradients, if their input is stored in parts on the devices.
  const double gathers = traits.gathers_inputs_again ? 2 : 1;
  terms.collective("tensor collectives", parts * (gather_s + scatter_s),
                   parts * (gathers * gather_s + scatter_s));
}

/// Returns true if the backward pass computes the term again. The term of a product's cast has the name of
/// the product and the word "cast".
bool is_recomputed(const Workload& work, const LayerKind& kind, const Term& term) {
  using enum RecomputedPart;
  const LayerRecompute recompute = work.recompute;
  const std::string_view name = term.name;
  const auto is_product = [name](std::string_view product) {
    return name == product || (name.starts_with(product) && name.ends_with(" cast"));
  };
  if (recompute.has(full)) return true;
  // A fused kernel always recomputes its scores. The time of the backward pass already contains this
  // recomputation.
  const bool is_core = name == "attention" || name == "scores";
  if (is_core && recompute.has(selective)) return !traits_of(work.framework).fused_attention;
  if (recompute.has(norm) && name == "norms") return true;
  if (name == "activation" && (recompute.has(activation) || (kind.has_experts && recompute.has(moe_act)))) {
    return true;
  }
  if (recompute.has(mlp) && name == "fc1") return true;
  if (recompute.has(mla_up_proj) && work.model.latent &&
      (is_product("queries") || is_product("keys and values") || name == "rotary positions")) {
    return true;
  }
  if (!kind.has_experts) return false;
  const bool is_shared = is_product("fc1") || is_product("fc2");
  if (is_shared) return recompute.has(shared_experts) || recompute.has(moe);
  const bool is_routed =
      term.part != LayerPart::attention || name == "router" || name == "routing" || name == "permutation";
  return is_routed && recompute.has(moe);
}

/// Adds to the backward pass those terms of `forward` that are computed again. If whole parts are
/// recomputed, their collectives are repeated as well.
void add_recomputation(TermWriter& terms, const std::vector<Term>& forward, const LayerKind& kind) {
  const Workload& work = terms.work();
  double seconds = 0;
  for (const Term& term : forward) {
    if (is_recomputed(work, kind, term)) seconds += term.forward;
  }
  if (seconds > 0) {
    terms.add({.name = "recomputation", .kind = TermKind::gemm, .backward_input = seconds});
  }
}

/// Multiplies the time of all computation by a factor. Exchanges between devices keep their time.
void scale_computation(std::vector<Term>& terms, double factor) {
  for (Term& term : terms) {
    if (term.kind == TermKind::collective) continue;
    term.forward *= factor;
    term.backward_input *= factor;
    term.backward_weight *= factor;
  }
}

/// Adds the time that the device waits for the host, if the kernels of the layer run faster than the host
/// can launch them.
void add_host_floor(std::vector<Term>& terms, double layer_s) {
  const Term sum = total_of(terms);
  const double forward_s = std::max(0.0, kHostForwardPart * layer_s - sum.forward);
  const double backward_s = std::max(0.0, (1 - kHostForwardPart) * layer_s - sum.backward());
  if (forward_s <= 0 && backward_s <= 0) return;
  terms.push_back(
      {.name = "host", .kind = TermKind::host, .forward = forward_s, .backward_input = backward_s});
}

}  // namespace

std::vector<Term> layer_terms(const Workload& given, const KernelTables& kernels, const LayerKind& kind) {
  const LayerWorkload sized(given, kind);
  const Workload& work = *sized;
  TermWriter writer(work, kernels);
  if (kind.has_attention) add_attention(writer, kind);
  if (kind.has_recurrence) add_recurrence(writer);
  const double hidden = as_double(work.model.hidden);
  for (std::int64_t i = 0; i < kind.linear_parts; ++i)
    writer.gemm("linear part", {.m = work.tokens(), .n = hidden / work.parallel.tensor, .k = hidden});
  if (kind.has_feed_forward) add_feed_forward(writer, kind);
  add_norms(writer, kind);
  add_tensor_collectives(writer, kind);
  std::vector<Term> terms = writer.take();
  // A second writer is needed, because recomputation is derived from the first writer's terms.
  TermWriter again(work, kernels);
  add_recomputation(again, terms, kind);
  std::ranges::move(again.take(), std::back_inserter(terms));
  if (kind.has_experts) scale_computation(terms, work.expert_factor);
  // The host limits only the layer's own kernels, so the exchanges of copies come after this limit.
  add_host_floor(terms, work.host_layer_seconds);
  add_copies_terms(terms, work, kernels, layer_device_parameters(given, kind));
  return terms;
}

std::vector<Term> embedding_terms(const Workload& work, const KernelTables& kernels) {
  std::vector<Term> terms;
  add_copies_terms(terms, work, kernels, embedding_device_parameters(work));
  return terms;
}

std::vector<Term> head_terms(const Workload& work, const KernelTables& kernels) {
  TermWriter writer(work, kernels);
  const double t = work.parallel.tensor;
  const double vocabulary = as_double(work.model.vocabulary) / t;
  // The head always uses bf16, as in published recipes. The time to gather its input is not counted.
  writer.gemm("head", {.m = work.tokens(), .n = vocabulary, .k = as_double(work.model.hidden)},
              GemmPrecision::bf16);
  const double logits = work.tokens() * vocabulary;
  const FrameworkTraits traits = traits_of(work.framework);
  writer.memory("loss", traits.loss_forward_bytes * logits, traits.loss_backward_bytes * logits, 1);
  std::vector<Term> terms = writer.take();
  add_copies_terms(terms, work, kernels, head_device_parameters(work, false));
  return terms;
}

std::vector<Term> prediction_terms(const Workload& work, const KernelTables& kernels) {
  std::vector<Term> terms = layer_terms(work, kernels, prediction_kind(work.model));
  TermWriter projection(work, kernels);
  const double hidden = as_double(work.model.hidden);
  projection.gemm("mtp projection",
                  {.m = work.tokens(), .n = hidden / work.parallel.tensor, .k = 2 * hidden});
  std::ranges::move(projection.take(), std::back_inserter(terms));
  return terms;
}

std::vector<Term> multi_token_terms(const Workload& work, const KernelTables& kernels) {
  std::vector<Term> terms = prediction_terms(work, kernels);
  std::ranges::move(head_terms(work, kernels), std::back_inserter(terms));
  return terms;
}

Term total_of(const std::vector<Term>& terms) {
  Term sum{.name = "total"};
  for (const Term& term : terms) {
    sum.forward += term.forward;
    sum.backward_input += term.backward_input;
    sum.backward_weight += term.backward_weight;
    sum.hidden_backward += term.hidden_backward;
  }
  return sum;
}

// TermWriter computes the times of products and other kernels. A product Y = X W has two products in the
// backward pass: dX = dY W^T (the input's gradient) and dW = X^T dY. The kernel of dW also adds dW to the sum
// over microbatches, and 0.4 of the time to read and write this sum is exposed. Other kernels cast values to
// 8 or 4 bits. In the forward pass, half of their time overlaps with other work. In the backward pass, they
// write two copies.
//
// A table that the user measured contains the three products with the additions to the sum, so no factor is
// applied. No product is faster than the device's peak.

namespace {

/// The share of the peak rate that a matrix product reaches if there is neither a measured table nor a
/// formula.
constexpr double kPlainEfficiency = 0.70;
/// The share of the peak rate that grouped products reach if there is no table.
constexpr double kPlainGroupedEfficiency = 0.5;
/// The bytes that the cast of one input element moves in the forward pass. 2 are read, and 1 is written
/// twice. Half of the time overlaps with other work.
constexpr double kForwardCastBytes = 4 * 0.5;
/// The bytes that the cast of one element of the output's gradient moves. 2 are read, and 1 is written
/// twice, once transposed. None of the time overlaps with other work.
constexpr double kBackwardCastBytes = 4;
/// The share of the reads and writes of gradient accumulation that the product does not hide. In older
/// software, the product hides all of them (see kScoreForwardBytes).
constexpr double kAccumulatePart = 0.4;

}  // namespace

double TermWriter::memory_seconds(double bytes) const {
  return bytes / (work_.device.memory_efficiency * work_.device.memory_bytes_per_second);
}

double TermWriter::burst_seconds(GemmPrecision precision, const GemmShape& shape) const {
  const DeviceRates rates = rates_of(work_.device, precision);
  const auto measured = kernels_.gemm_seconds(precision, shape, rates);
  return measured.value_or(shape.flops() / (kPlainEfficiency * rates.flops_per_second));
}

double TermWriter::product_seconds(GemmPrecision precision, const GemmShape& shape) const {
  const double sustained = work_.device.*sustained_of(precision);
  return std::max(sustained * burst_seconds(precision, shape), peak_seconds(precision, shape.flops()));
}

double TermWriter::peak_seconds(GemmPrecision precision, double operations) const {
  return operations / peak_flops(work_.device, precision);
}

void TermWriter::gemm(std::string_view name, const GemmShape& shape, GemmPrecision precision) {
  if (shape.flops() <= 0) return;
  if (precision == GemmPrecision::bf16) {
    if (auto own = own_products(name, 1, shape)) {
      add(*std::move(own));
      return;
    }
  }
  const auto [m, n, k] = shape;
  const auto seconds = [&](Product product) { return product_seconds(precision, shape_of(product, shape)); };
  add({.name = std::string(name),
       .kind = TermKind::gemm,
       .forward = seconds(Product::forward),
       .backward_input = seconds(Product::input_gradient),
       .backward_weight = seconds(Product::weight_gradient)});
  cast(name, m * k, m * n, precision);
  accumulate(name, n * k);
}

void TermWriter::cast(std::string_view name, double inputs, double outputs, GemmPrecision precision) {
  if (precision == GemmPrecision::bf16) return;
  add({.name = fmt::format("{} cast", name),
       .kind = TermKind::cast,
       .forward = memory_seconds(inputs * kForwardCastBytes),
       .backward_input = memory_seconds(outputs * kBackwardCastBytes)});
}

void TermWriter::grouped(std::string_view name, double groups, const GemmShape& forward) {
  const auto [m, n, k] = forward;
  const double operations = groups * forward.flops();
  const double peak_s = peak_seconds(work_.precision, operations);
  const GroupedRates& rates = kernels_.grouped();
  const auto seconds = [&](Product product, double least_bytes) {
    const double share = rates.empty() ? kPlainGroupedEfficiency : rates.share(product, forward);
    return std::max({sustained_factor(work_) * peak_s / share, memory_seconds(least_bytes), peak_s});
  };
  const double weights = groups * n * k;
  // Both passes read all weights. The sums of weight gradients are read and written.
  const double read = value_bytes(work_.precision) * weights;
  add({.name = std::string(name),
       .kind = TermKind::gemm,
       .forward = seconds(Product::forward, read),
       .backward_input = seconds(Product::input_gradient, read),
       .backward_weight = seconds(Product::weight_gradient, 2 * work_.gradient_bytes * weights)});
  cast(name, groups * m * k, groups * m * n, work_.precision);
}

std::optional<Term> TermWriter::own_products(std::string_view name, double groups,
                                             const GemmShape& forward) const {
  const auto seconds = [&](Product product) {
    return kernels_.products().seconds(product, groups, shape_of(product, forward));
  };
  const auto output = seconds(Product::forward);
  const auto input = seconds(Product::input_gradient);
  const auto weight = seconds(Product::weight_gradient);
  // The table is used only if it has all three products, so that measured and modelled times are not mixed.
  if (!output || !input || !weight) return std::nullopt;
  const double least_s = peak_seconds(GemmPrecision::bf16, groups * forward.flops());
  return Term{.name = std::string(name),
              .kind = TermKind::gemm,
              .forward = std::max(*output, least_s),
              .backward_input = std::max(*input, least_s),
              .backward_weight = std::max(*weight, least_s)};
}

void TermWriter::accumulate(std::string_view name, double parameters) {
  const FrameworkTraits traits = traits_of(work_.framework);
  if (!traits.fused_attention) return;
  const double bytes = traits.gradient_copy_bytes > 0 ? traits.gradient_copy_bytes
                                                      : kAccumulatePart * 2 * work_.gradient_bytes;
  add({.name = fmt::format("{} accumulation", name),
       .kind = TermKind::accumulate,
       .backward_weight = memory_seconds(bytes * parameters)});
}

void TermWriter::memory(std::string_view name, double forward_bytes, double backward_bytes, int kernels) {
  const double launch_s = kernels * static_cast<double>(work_.device.launch_ns) * kSecondsPerNanosecond;
  add({.name = std::string(name),
       .kind = TermKind::memory,
       .forward = memory_seconds(forward_bytes) + launch_s,
       .backward_input = memory_seconds(backward_bytes) + launch_s});
}

void TermWriter::collective(std::string_view name, double forward_seconds, double backward_seconds) {
  if (forward_seconds <= 0 && backward_seconds <= 0) return;
  add({.name = std::string(name),
       .kind = TermKind::collective,
       .forward = forward_seconds,
       .backward_input = backward_seconds});
}

}  // namespace penstock
