#include "scenarios/pricing/collectives.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

/// A ring in which all devices of a group run collectives.
struct Ring {
  DeviceGroup group = DeviceGroup::data;
  std::int64_t devices = 1;
  /// The time of the collective on NVLink, divided by its time in a measurement of the collective alone.
  double slowdown = 1;
  /// The number of collectives that send the bytes one after the other.
  double collectives = 1;
};

/// Returns the latency of one pass of a ring of n devices in d NVLink domains. As in NCCL's tuning model
/// (src/graph/tuning.cc), d - 1 of its n - 1 steps cross the network:
///
///     (n - d) x step over NVLink + (d - 1) x step over the network
double pass_latency_s(const Workload& work, const Ring& ring) {
  const DeviceType& device = work.device;
  const auto n = static_cast<double>(ring.devices);
  const auto domains = static_cast<double>(group_domains(work.parallel, work.ranks, ring.group, device));
  // A group that is assumed to cross the end of a domain may have fewer members than domains.
  const double over_network = std::min(domains, n) - 1;
  const double on_nvlink = n - 1 - over_network;
  return (ring.slowdown * on_nvlink * static_cast<double>(device.nvlink_step_ns) +
          over_network * static_cast<double>(device.network_step_ns)) *
         kSecondsPerNanosecond;
}

/// Returns the seconds of an all-to-all: each of n devices sends 1/n of `bytes` to each other device. Each
/// device uses its own network card. At the same time, messages inside an NVLink domain use NVLink.
double all_to_all_seconds(const Workload& work, const Ring& ring, double bytes) {
  const auto n = static_cast<double>(ring.devices);
  const double in_domain =
      n / static_cast<double>(group_domains(work.parallel, work.ranks, ring.group, work.device));
  const double outside_s = (n - in_domain) / n * bytes / work.device.link_bytes_per_second(false);
  const double inside_s = std::max(0.0, in_domain - 1) / n * bytes / work.device.link_bytes_per_second(true);
  return std::max(outside_s, ring.slowdown * inside_s);
}

double seconds_of(const Workload& work, const KernelTables& kernels, const Ring& ring,
                  GroupOperation operation, double bytes) {
  if (ring.devices <= 1 || bytes <= 0) return 0;
  const bool on_nvlink = is_on_nvlink(work.parallel, work.ranks, ring.group, work.device);
  std::optional<double> measured;
  // The tables were measured on one NVLink domain, so they do not apply to the network.
  if (on_nvlink)
    measured = kernels.collective_seconds(operation, static_cast<std::int32_t>(ring.devices), bytes);
  if (measured) return ring.slowdown * *measured;
  const auto n = static_cast<double>(ring.devices);
  if (operation == GroupOperation::all_to_all) {
    // Each device sends to all others at the same time.
    const double latency_s = static_cast<double>(work.device.link_latency_ns) * kSecondsPerNanosecond;
    return all_to_all_seconds(work, ring, bytes) + (on_nvlink ? ring.slowdown : 1) * latency_s;
  }
  const double passes = operation == GroupOperation::all_reduce ? 2 : 1;
  const double rate = std::min(group_bytes_per_second(work.parallel, work.ranks, ring.group, work.device),
                               work.device.link_bytes_per_second(true) / ring.slowdown);
  return passes * ((n - 1) / n * bytes / rate + ring.collectives * pass_latency_s(work, ring));
}

Ring ring_of(const Workload& work, DeviceGroup group) {
  return {.group = group, .devices = group_size(work.parallel, work.ranks, group)};
}

}  // namespace

double group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                     GroupOperation operation, double bytes) {
  return seconds_of(work, kernels, ring_of(work, group), operation, bytes);
}

double exposed_group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                             GroupOperation operation, double bytes) {
  Ring ring = ring_of(work, group);
  ring.slowdown = work.device.collectives;
  return seconds_of(work, kernels, ring, operation, bytes);
}

double copies_seconds(const Workload& work, const KernelTables& kernels, GroupOperation operation,
                      const DeviceParameters& parameters, double bytes, double collectives) {
  // Experts have fewer copies than other weights, so they need their own collective. Both collectives use the
  // same links, one after the other.
  double seconds = 0;
  for (const auto& [group, held] : {std::pair{DeviceGroup::data, parameters.dense},
                                    std::pair{DeviceGroup::expert_copies, parameters.expert}}) {
    Ring ring = ring_of(work, group);
    ring.collectives = std::max(1.0, collectives * held / parameters.total());
    seconds += seconds_of(work, kernels, ring, operation, bytes * held);
  }
  return seconds;
}

// The memory and exchanges of ZeRO (Rajbhandari et al., SC'20, sections 5 and 7) for n copies of a weight:
//
//   sharding            0            1                 2                      3
//   a copy holds        all          1/n of the        also 1/n of the        also 1/n of the
//                                    optimizer state   gradients              weights
//   a microbatch                                       scatters gradients     gathers weights twice,
//                                                                             scatters gradients
//   a step              all-reduces  scatters          gathers weights        nothing
//                       gradients    gradients,
//                                    gathers weights
//
// If a copy stores only a part of the gradients, gradients are scattered in each microbatch and not again in
// the step. DeepSpeed's stage 2 works like this, and so does PyTorch's FSDP if every backward pass
// synchronizes gradients. A layer's weights are gathered while the previous layer runs. Its gradients are
// scattered while the next layer of the backward pass runs. For equal layers, these seconds are exposed:
//
//   forward    max(0, gather - F)
//   backward   max(0, gather - I)  +  max(0, scatter - (I + W - hidden part of gather))
//
// LLM Foundry gathers a layer's weights for the backward pass only when the gradients of the layer before are
// complete (Composer's default BACKWARD_POST, which its benchmarks keep). Nothing hides this gather.
//
// With `parallel.gather: step`, weights are gathered once a step, and each copy stores all gradients until
// the last microbatch. PyTorch's FSDP does this inside a pipeline (reshard_after_forward off). Sharding 2 and
// 3 then have the memory and the exchanges of sharding 1. Tested by weight_copies_test.cpp.

namespace {

constexpr std::string_view kWeightsGathered = "weights gathered";
constexpr std::string_view kGradientsScattered = "gradients scattered";

/// Returns the part of `held` of which other devices store copies. `held` must be the parameters that one
/// device stores.
DeviceParameters shared_parameters(const Parallel& parallel, const DeviceParameters& held) {
  return {.dense = parallel.weight_copies() > 1 ? held.dense : 0,
          .expert = parallel.expert_copies() > 1 ? held.expert : 0};
}

}  // namespace

double gathered_bytes(const Workload& work) { return work.precision == GemmPrecision::bf16 ? 2 : 1; }

DeviceParameters held_from(const Parallel& parallel, std::int32_t sharding, const DeviceParameters& held) {
  if (parallel.sharding_between_steps() < sharding) return held;
  return {.dense = held.dense / parallel.weight_copies(), .expert = held.expert / parallel.expert_copies()};
}

void add_copies_terms(std::vector<Term>& terms, const Workload& work, const KernelTables& kernels,
                      const DeviceParameters& parameters) {
  const Parallel& parallel = work.parallel;
  // If the expert group is smaller than the tensor group, only experts may have copies.
  const bool has_copies = parallel.weight_copies() > 1 || parallel.expert_copies() > 1;
  if (parallel.sharding_between_steps() < 2 || !has_copies) return;
  const Term beside = total_of(terms);
  const auto exposed = [&](double seconds, double hidden) {
    return parallel.data_overlap ? std::max(0.0, seconds - hidden) : seconds;
  };
  double hidden_gather_s = 0;
  if (parallel.sharding == 3) {
    const double gather_s =
        copies_seconds(work, kernels, GroupOperation::all_gather, parameters, gathered_bytes(work));
    const bool is_late = traits_of(work.framework).gathers_after_gradients;
    const double exposed_again_s = exposed(gather_s, is_late ? 0 : beside.backward_input);
    hidden_gather_s = gather_s - exposed_again_s;
    terms.push_back({.name = std::string(kWeightsGathered),
                     .kind = TermKind::collective,
                     .forward = exposed(gather_s, beside.forward),
                     .backward_input = exposed_again_s,
                     .hidden_backward = hidden_gather_s});
  }
  const double scatter_s =
      copies_seconds(work, kernels, GroupOperation::reduce_scatter, parameters, work.gradient_bytes);
  // The gather already overlaps with a part of I. The link cannot run both exchanges at the same time.
  const double left_s = beside.backward() - hidden_gather_s;
  terms.push_back({.name = std::string(kGradientsScattered),
                   .kind = TermKind::collective,
                   .backward_weight = exposed(scatter_s, left_s)});
}

ShownCollectives shown_collectives(const std::vector<Term>& terms) {
  ShownCollectives shown;
  for (const Term& term : terms) {
    if (term.name == kWeightsGathered) {
      shown.gathered_s += term.forward;
      shown.gathered_again_s += term.backward_input;
      shown.hidden_again_s += term.hidden_backward;
    }
    if (term.name == kGradientsScattered) shown.scattered_s += term.backward_weight;
  }
  return shown;
}

double whole_layer_bytes(const Workload& work, const DeviceParameters& parameters) {
  if (work.parallel.sharding_between_steps() < 2) return 0;
  const double gradients = work.gradient_bytes * shared_parameters(work.parallel, parameters).total();
  return gradients + whole_weight_bytes(work, parameters);
}

double whole_weight_bytes(const Workload& work, const DeviceParameters& parameters) {
  if (work.parallel.sharding_between_steps() < 3) return 0;
  return weight_bytes(work) * shared_parameters(work.parallel, parameters).total();
}

}  // namespace penstock
