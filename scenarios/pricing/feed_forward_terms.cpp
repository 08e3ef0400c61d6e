// Computes the times of feed-forward parts. A dense part has two products. If the part is gated, the first
// product is twice as wide. A layer of experts routes each of the T/t tokens of a device to k experts. After
// the exchange all E/e experts of a device have equally many rows:
//
//   router -> permute -> dispatch -> experts' products, grouped -> combine -> unpermute
//                                                                  beside the shared expert
//
// Dispatch and combine are exchanges between the devices of an expert group. An all-to-all sends a token once
// for each of its k experts. DeepEP and Hybrid-EP send it once to each device that needs it, and once to each
// other NVLink domain: (n - 1) (1 - (1 - 1/n)^k) of n places, if experts are drawn at random. If a token
// first chooses g of G groups of experts, the experts are drawn from these groups alone, so fewer places need
// it.
//
// Grouped products reach the measured rates of their rows (GroupedRates), unless reading the weights takes
// longer. Weight gradients have few rows for each expert, so reading and writing the sums may take longer
// than the operations. layer_terms.cpp prices the rest of a layer. Tested by pricing_test.cpp.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// The bytes that a permutation of rows moves, as a share of the bytes of all rows.
constexpr double kPermutePart = 0.75;
/// The rate of DeepEP over the network, divided by the rate of NCCL's collectives. DeepEP's README measures
/// 58 GB/s on 32 devices with network cards of 50 GB/s. It counts the copies that stay in the sender's node,
/// which are a quarter. So 44 GB/s leave a node, where a ring reaches 0.8 of the card's rate. Hybrid-EP sends
/// the same messages.
constexpr double kDirectRate = 1.1;
constexpr double kRouterBytes = 24;  // the bytes moved for a token and an expert: scores, softmax, choice

/// The bytes that an activation function moves for each value. A gated function reads two values and writes
/// one.
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

/// Adds the two matrix products of a dense feed-forward part. If the part is gated, the first product has
/// twice the columns.
void add_dense(TermWriter& terms, double inner) {
  const Workload& work = terms.work();
  const double t = work.parallel.tensor;
  const double hidden = as_double(work.model.hidden);
  const double first = (work.model.gated ? 2 : 1) * inner / t;
  terms.gemm("fc1", {.m = work.tokens(), .n = first, .k = hidden});
  terms.gemm("fc2", {.m = work.tokens(), .n = hidden, .k = inner / t});
}

/// Returns the number of ways to choose `chosen` items out of `all`.
double combinations(std::int64_t all, std::int64_t chosen) {
  if (chosen < 0 || chosen > all) return 0;
  double ways = 1;
  for (std::int64_t i = 1; i <= chosen; ++i) ways *= as_double(all - chosen + i) / as_double(i);
  return ways;
}

/// Returns the probability that a place (a device or an NVLink domain) has at least one of a token's experts.
/// Each place has 1 / `places` of the experts. The token's experts are drawn at random from the expert groups
/// that the token chose. A place has m of the groups, or a part of one. If j of the g chosen groups are on
/// the place, each drawn expert is there with the probability j / g.
double reached_part(const Experts& experts, double places) {
  const auto drawn = as_double(experts.per_token);
  const double groups_here = as_double(experts.groups) / places;
  const auto chosen = as_double(experts.groups_per_token);
  if (experts.groups_per_token >= experts.groups) return 1 - std::pow(1 - 1 / places, drawn);
  if (groups_here <= 1) {
    return chosen / as_double(experts.groups) * (1 - std::pow(1 - groups_here / chosen, drawn));
  }
  // The number of groups of a place is rounded up, so that no exchange is too short.
  const auto here = static_cast<std::int64_t>(std::ceil(groups_here));
  const double ways = combinations(experts.groups, experts.groups_per_token);
  double part = 0;
  for (std::int64_t j = 1; j <= std::min(here, experts.groups_per_token); ++j) {
    const double chance =
        combinations(here, j) * combinations(experts.groups - here, experts.groups_per_token - j) / ways;
    part += chance * (1 - std::pow(1 - as_double(j) / chosen, drawn));
  }
  return part;
}

/// Returns the seconds of one exchange in which a token is sent only once to each NVLink domain and device
/// that needs it. Between NVLink domains, each device uses its own network card. At the same time, NVLink
/// carries the token to the devices of its experts. In its own domain, the token starts at its own device. In
/// other domains, it starts at the device at which it arrived.
double deduplicated_seconds(const Workload& work, double token_bytes) {
  const Experts& experts = *work.model.experts;
  const Parallel& parallel = work.parallel;
  const auto devices = static_cast<double>(group_size(parallel, work.ranks, DeviceGroup::expert));
  const auto domains =
      static_cast<double>(group_domains(parallel, work.ranks, DeviceGroup::expert, work.device));
  const double in_domain = devices / domains;
  // A token is not sent to the domain and the device where it already is.
  const double outside = reached_part(experts, domains) * (domains - 1);
  const double inside = reached_part(experts, devices) * devices * std::max(0.0, in_domain - 1) / in_domain;
  const double network =
      std::min(kDirectRate * work.device.link_bytes_per_second(false), work.device.network_bytes_per_second);
  return std::max(token_bytes * outside / network,
                  token_bytes * inside / work.device.link_bytes_per_second(true)) +
         static_cast<double>(work.device.link_latency_ns) * kSecondsPerNanosecond;
}

/// Returns the seconds of one exchange of `rows` token vectors between the devices of an expert group. Each
/// value of a row has `value_bytes`.
double exchange_seconds(const TermWriter& terms, double rows, double value_bytes) {
  const Workload& work = terms.work();
  if (work.parallel.expert <= 1) return 0;
  const double bytes = value_bytes * rows * as_double(work.model.expert_width());
  if (work.parallel.expert_dispatch != ExpertDispatch::alltoall)
    return deduplicated_seconds(work, bytes / as_double(work.model.experts->per_token));
  return exposed_group_seconds(work, terms.kernels(), DeviceGroup::expert, GroupOperation::all_to_all, bytes);
}

/// Adds the products of a device's experts for `rows` rows in total. All experts get equally many rows, as
/// with a balanced router.
void add_grouped_products(TermWriter& terms, double rows) {
  const Workload& work = terms.work();
  const Experts& experts = *work.model.experts;
  const double hidden = as_double(work.model.expert_width());
  const double inner = as_double(experts.inner);
  const double local = as_double(experts.count) / work.parallel.expert;
  const double first = (work.model.gated ? 2 : 1) * inner;
  // The user's table has only products of 16 bits. The number of rows is rounded up, because each device
  // sends a whole number of rows to each expert.
  if (work.precision == GemmPrecision::bf16) {
    const double sent = std::ceil(rows / as_double(experts.count)) * work.parallel.expert;
    auto fc1 = terms.own_products("experts fc1", local, {.m = sent, .n = first, .k = hidden});
    auto fc2 = terms.own_products("experts fc2", local, {.m = sent, .n = hidden, .k = inner});
    // Measured and modelled times must not be mixed, so the table is used only if it has both products.
    if (fc1 && fc2) {
      terms.add(*std::move(fc1));
      terms.add(*std::move(fc2));
      return;
    }
  }
  terms.grouped("experts fc1", local, {.m = rows / local, .n = first, .k = hidden});
  terms.grouped("experts fc2", local, {.m = rows / local, .n = hidden, .k = inner});
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
  const double permute = 4 * kPermutePart * 4 * rows * as_double(work.model.expert_width());
  terms.memory("permutation", permute, permute, 2);
  if (experts.latent > 0) {
    terms.gemm("narrow rows", {.m = tokens, .n = as_double(experts.latent), .k = hidden});
    terms.gemm("wide rows", {.m = tokens, .n = hidden, .k = as_double(experts.latent)});
  }
  const double exchange_s = exchange_seconds(terms, rows, 2);
  // Results and gradients are always sent in 16 bits, so 8 bits shorten only the forward dispatch.
  const double dispatch_s = work.parallel.fp8_dispatch ? exchange_seconds(terms, rows, 1) : exchange_s;
  terms.begin(LayerPart::dispatch);
  terms.collective("dispatch", dispatch_s, exchange_s);
  terms.begin(LayerPart::experts);
  // The time of the activation function is computed only for routed rows, and not for the shared expert.
  add_grouped_products(terms, rows);
  add_activation(terms, rows * as_double(experts.inner));
  terms.begin(LayerPart::combine);
  terms.collective("combine", exchange_s, exchange_s);
  terms.begin(LayerPart::attention);
  if (experts.shared_inner > 0) add_dense(terms, as_double(experts.shared_inner));
  if (work.unexplained_expert_seconds <= 0) return;
  // The forward pass usually takes a third of a layer's time, so it gets a third of the unexplained time.
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
