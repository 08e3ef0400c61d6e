// A dense feed-forward part is two products, the first twice as wide where it is gated. A layer of experts
// routes each of a device's T/t tokens to k of them; after the exchange a device has as many rows for its E/e
// experts:
//
//   router -> permute -> all-to-all -> experts' products, grouped -> all-to-all -> unpermute
//                                                                    beside the shared expert
//
// Grouped products reach half of the peak on rows padded to 128 an expert, or the memory's rate for the
// weights; their weight gradients, few rows an expert, are bound by reading and writing the sums.

#include <algorithm>
#include <cmath>
#include <utility>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/term_writer.hpp"
#include "scenarios/pricing/workload.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

constexpr double kGroupedEfficiency = 0.5;  // of the peak
constexpr double kRowsPadding = 128;        // rows of a tile: an expert's last one may be mostly empty
/// Parts of the bytes that permuting rows moves.
constexpr double kPermutePart = 0.75;
constexpr double kRouterBytes = 24;  // a token and expert: scores in 4 bytes, softmax, choice

/// Bytes a value of the activation's inputs and output move: gated ones read two and write one.
struct ActivationBytes {
  double forward;
  double backward;
};
ActivationBytes activation_bytes(const Architecture& model) {
  return model.gated ? ActivationBytes{.forward = 2 * 3, .backward = 2 * 5}
                     : ActivationBytes{.forward = 2 * 2, .backward = 2 * 3};
}

void add_activation(TermWriter& terms, double values) {
  const ActivationBytes bytes = activation_bytes(terms.work().model);
  terms.memory("activation", bytes.forward * values, bytes.backward * values, 1);
}

/// Two products. Where it is gated the two projections into the inner width are one product of twice the
/// columns.
void add_dense(TermWriter& terms, double inner) {
  const Workload& work = terms.work();
  const double t = work.parallel.tensor;
  const double hidden = as_double(work.model.hidden);
  const double first = (work.model.gated ? 2 : 1) * inner / t;
  terms.gemm("fc1", {.m = work.tokens(), .n = first, .k = hidden});
  terms.gemm("fc2", {.m = work.tokens(), .n = hidden, .k = inner / t});
}

/// Seconds of one exchange between the devices of an expert group.
double exchange_seconds(const TermWriter& terms, double rows) {
  const Workload& work = terms.work();
  const Experts& experts = *work.model.experts;
  const double hidden = as_double(work.model.hidden);
  if (work.parallel.expert <= 1) return 0;
  if (is_on_nvlink(work.parallel, work.ranks, DeviceGroup::expert, work.device)) {
    return group_seconds(work, terms.kernels(), DeviceGroup::expert, GroupOperation::all_to_all,
                         2 * rows * hidden);
  }
  // A token goes once to each other node that holds one of its experts.
  const double nodes = expert_domains(work.parallel, work.ranks, work.device);
  // The number of nodes that experts drawn at random are expected to be on.
  const double reached = nodes * (1 - std::pow(1 - 1 / nodes, as_double(experts.per_token)));
  // A router that chooses groups of experts first reaches no more nodes than groups, counting a group as
  // on one node.
  const double distinct =
      experts.groups > 1 ? std::min(reached, as_double(experts.groups_per_token)) : reached;
  const double tokens = rows / as_double(experts.per_token);
  // What goes to a token's own node does not leave it.
  return 2 * tokens * distinct * (nodes - 1) / nodes * hidden / work.device.link_bytes_per_second(false) +
         static_cast<double>(work.device.link_latency_ns) * 1e-9;
}

/// The experts' products as the machine's own table has them, if it does.
bool add_own_products(TermWriter& terms, double groups, double rows) {
  const Workload& work = terms.work();
  // The table's products are of 16 bits.
  if (work.precision != GemmPrecision::bf16) return false;
  const double hidden = as_double(work.model.hidden);
  const double inner = as_double(work.model.experts->inner);
  const double first = (work.model.gated ? 2 : 1) * inner;
  auto fc1 = terms.own_products("experts fc1", groups, {.m = rows, .n = first, .k = hidden});
  auto fc2 = terms.own_products("experts fc2", groups, {.m = rows, .n = hidden, .k = inner});
  // Both or none: half of them measured and half modelled would be neither.
  if (!fc1 || !fc2) return false;
  terms.add(*std::move(fc1));
  terms.add(*std::move(fc2));
  return true;
}

/// The products of a device's experts for `rows` rows in all: 2 or 3 projections, each once forward and twice
/// backward. Experts get equal parts of them, as a balanced router would have it.
void add_grouped_products(TermWriter& terms, double rows) {
  const Workload& work = terms.work();
  const Experts& experts = *work.model.experts;
  const double local = as_double(experts.count) / work.parallel.expert;
  const double projections = work.model.gated ? 3 : 2;
  const double parameters = local * projections * as_double(work.model.hidden * experts.inner);
  // A device sends each expert a whole number of rows.
  const double sent_rows = std::ceil(rows / as_double(experts.count));
  if (add_own_products(terms, local, sent_rows * work.parallel.expert)) return;
  const double rows_per_expert = rows / local;
  const double padding = std::ceil(rows_per_expert / kRowsPadding) * kRowsPadding / rows_per_expert;
  const double operations = 2 * rows * projections * as_double(work.model.hidden * experts.inner) * padding;
  const double compute_s = std::max(
      operations / (kGroupedEfficiency * peak_flops(work.device, work.precision)) * sustained_factor(work),
      terms.peak_seconds(work.precision, operations));
  const double forward_s = std::max(compute_s, terms.memory_seconds(2 * parameters));
  // Few rows an expert: the sums of all weights are read and written for hardly any operations.
  const double weight_s = std::max(compute_s, terms.memory_seconds(2 * work.gradient_bytes * parameters));
  terms.add({.name = "experts",
             .kind = TermKind::gemm,
             .forward = forward_s,
             .backward_input = forward_s,
             .backward_weight = weight_s});
}

void add_experts(TermWriter& terms) {
  const Workload& work = terms.work();
  const Experts& experts = *work.model.experts;
  const double t = work.parallel.tensor;
  const double hidden = as_double(work.model.hidden);
  const double tokens = work.tokens();
  // Without sequence parallelism every device of a tensor group routes all tokens.
  const double rows = tokens * as_double(experts.per_token) / (work.parallel.sequence_parallel ? t : 1);
  terms.gemm("router", {.m = tokens, .n = as_double(experts.count), .k = hidden}, GemmPrecision::bf16);
  terms.memory("routing", kRouterBytes * tokens * as_double(experts.count),
               kRouterBytes * tokens * as_double(experts.count), 1);
  const double permute = 4 * kPermutePart * 4 * rows * hidden;
  terms.memory("permutation", permute, permute, 2);
  const double exchange_s = work.device.collectives * exchange_seconds(terms, rows);
  terms.collective("exchange", 2 * exchange_s, 2 * exchange_s);
  // Activations of the routed rows alone: the shared experts' own is in no term.
  add_grouped_products(terms, rows);
  add_activation(terms, rows * as_double(experts.inner));
  if (experts.shared_inner > 0) add_dense(terms, as_double(experts.shared_inner));
  // Of every layer's time a third is forward; what nobody knows is taken to be no exception.
  terms.add({.name = "unexplained",
             .kind = TermKind::host,
             .forward = work.unexplained_expert_seconds / 3,
             .backward_input = work.unexplained_expert_seconds * 2 / 3});
}

}  // namespace

void add_feed_forward(TermWriter& terms, const LayerKind& kind) {
  if (kind.has_experts) {
    add_experts(terms);
    return;
  }
  const Workload& work = terms.work();
  add_dense(terms, as_double(work.model.feed_forward));
  add_activation(terms, work.tokens() * as_double(work.model.feed_forward) / work.parallel.tensor);
}

}  // namespace penstock
