// Computes the properties of a workload on which its costs depend: the rates of its device and of its
// groups of devices. It also checks that all sizes can be divided as stated. layer_terms.cpp and
// layer_memory.cpp then compute times and bytes.

#include "scenarios/pricing/workload.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "schedules/ir/program.hpp"
#include "topology/presets.hpp"

namespace penstock {

std::string to_text(const RecomputedLayers& layers) {
  switch (layers.method) {
    case RecomputedLayers::Method::all:
      return "";
    case RecomputedLayers::Method::block:
      return fmt::format(" of the first {} layers of each stage", layers.count);
    case RecomputedLayers::Method::uniform:
      return fmt::format(" with one input for {} layers", layers.count);
    case RecomputedLayers::Method::listed:
      return fmt::format(" of the layers {}", fmt::join(layers.layers, ", "));
  }
  return "";
}

double peak_flops(const DeviceType& device, GemmPrecision precision) {
  switch (precision) {
    case GemmPrecision::bf16:
      return device.bf16_flops_per_second;
    case GemmPrecision::fp8:
      return device.fp8_flops_per_second;
    case GemmPrecision::fp4:
      return device.fp4_flops_per_second;
  }
  return device.bf16_flops_per_second;
}

DeviceRates rates_of(const DeviceType& device, GemmPrecision precision) {
  return {.flops_per_second = peak_flops(device, precision),
          .memory_bytes_per_second = device.memory_bytes_per_second,
          .multiprocessors = static_cast<double>(device.multiprocessors)};
}

// A fused loss reads the logits twice and writes their gradient. PyTorch's loss casts the logits, computes
// the logarithm of their softmax in 32 bits, and casts its gradient. The steps of the zero-bubble paper leave
// no time for an unfused loss on the last stage, although all logits are held in 32 bits.

FrameworkTraits traits_of(Framework framework) {
  switch (framework) {
    case Framework::megatron_te:
      return {};
    case Framework::torchtitan:
      // FSDP2 copies gradients into the reduction's buffer (2 bytes are read, 4 are written). Float8 layers
      // gather 8 bits in both passes. Asynchronous tensor parallelism is off by default.
      return {.flash_attention_2 = true,
              .gradient_copy_bytes = 6,
              .gathers_inputs_again = false,
              .gathers_in_fp8 = true,
              .overlaps_tensor_collectives = false,
              .loss_forward_bytes = 16,
              .loss_backward_bytes = 22,
              .logit_bytes = 12,  // the saved logarithms, two gradients of 4 bytes each
              .holds_placeholders = false};
    case Framework::megatron_2021:
      return {.fused_attention = false,
              .mask_bytes = 1,
              .logit_bytes = 10,  // the logits in 2 and 4 bytes, and their exponentials
              .holds_placeholders = false};
    case Framework::llm_foundry:
      // FlashAttention-2 is 1.3 to 2.5 times faster than FlashAttention in Triton (Dao, 2023, section 4.1);
      // 1.8 is the geometric mean. Separate kernels compute the gradients of both norms' weights (2 x 2 bytes
      // more), add gradients at both residual adds (2 x 2 more), and join those of queries, keys and values
      // (3 x 4). FSDP copies a gradient into a flat tensor (2 + 2) and converts it to 4 bytes (2 + 4).
      return {.flash_attention_2 = true,
              .attention_factor = 1.8,
              .separate_bytes = 20,
              .gathers_after_gradients = true,
              .gradient_copy_bytes = 10,
              .overlaps_tensor_collectives = false,
              .holds_placeholders = false};
  }
  return {};
}

double DeviceType::* sustained_of(GemmPrecision precision) {
  switch (precision) {
    case GemmPrecision::bf16:
      return &DeviceType::sustained;
    case GemmPrecision::fp8:
      return &DeviceType::sustained_fp8;
    case GemmPrecision::fp4:
      return &DeviceType::sustained_fp4;
  }
  return &DeviceType::sustained;
}

double sustained_factor(const Workload& work) { return work.device.*sustained_of(work.precision); }

// Devices are numbered in one of two orders. The order decides which groups stay on one NVLink domain. Device
// t of T in its tensor group, c of C in its context group, p of P stages and d of D copies has this number:
//
//   tp-cp-ep-dp-pp   device = t + T (c + C (d + D p))
//   tp-cp-ep-pp-dp   device = t + T (c + C (p + P d))
//
// In the second order an edge of the pipeline connects devices at a distance of T C. The members of a
// data-parallel group have a distance of T C P. A group of e devices for experts first contains the devices
// of one rank, and then the devices of the same rank in other copies. With T C = 2, P = 4 and 8 devices on an
// NVLink domain, a group of 8 has two devices in each domain:
//
//   domain   0          1          2          3
//            ee......   ee......   ee......   ee......
//
// The members of every group are at equal distances, and this pattern may repeat at a larger distance:
//
//   x.x.....x.x.....x.x.....    2 members at a distance of 2, 3 times at a distance of 8
//
// A collective that crosses domains uses the network cards of all members in a domain. In the example above
// it runs at the rate of two cards, but not faster than NVLink inside the domain.

std::int64_t group_size(const Parallel& parallel, std::int32_t ranks, DeviceGroup group) {
  switch (group) {
    case DeviceGroup::tensor:
      return parallel.tensor;
    case DeviceGroup::context:
      return parallel.context;
    case DeviceGroup::expert:
      return parallel.expert;
    case DeviceGroup::pipeline:
      return ranks;
    case DeviceGroup::data:
      return std::int64_t{parallel.data} * parallel.context;
    case DeviceGroup::expert_copies:
      return parallel.expert_copies();
  }
  return 1;
}

std::int64_t group_span(const Parallel& parallel, std::int32_t ranks, DeviceGroup group) {
  const std::int64_t rank = parallel.devices_per_rank();  // the devices of a rank are adjacent in both orders
  const bool stages_are_nearer = parallel.order == PlacementOrder::tp_cp_ep_pp_dp;
  // Returns the number of devices over which `count` copies extend, including the stages between them.
  const auto over_copies = [&](std::int64_t count) {
    // A group of one copy stays inside its rank.
    if (count <= 1) return rank;
    return rank * count * (stages_are_nearer ? std::int64_t{ranks} : 1);
  };
  switch (group) {
    case DeviceGroup::tensor:
      return parallel.tensor;
    case DeviceGroup::context:
      return rank;
    case DeviceGroup::expert:
      return parallel.expert <= rank ? parallel.expert : over_copies((parallel.expert + rank - 1) / rank);
    case DeviceGroup::pipeline:
      if (ranks == 1) return rank;  // a single rank has no edge
      // If copies are numbered before stages, the devices of all copies lie between two adjacent stages.
      return rank * ranks * (stages_are_nearer ? 1 : std::int64_t{parallel.data});
    case DeviceGroup::data:
      return over_copies(parallel.data);
    case DeviceGroup::expert_copies:
      return parallel.expert_copies() <= 1 ? 1 : over_copies(parallel.data);
  }
  return 1;
}

bool is_on_nvlink(const Parallel& parallel, std::int32_t ranks, DeviceGroup group, const DeviceType& device) {
  return group_span(parallel, ranks, group) <= device.nvlink_devices;
}

namespace {

/// The positions of a group's members. The group has `outer` sets at a distance of `outer_stride`. Each set
/// has `inner` devices at a distance of `inner_stride`.
struct GroupMembers {
  std::int64_t inner = 1;
  std::int64_t inner_stride = 1;
  std::int64_t outer = 1;
  std::int64_t outer_stride = 1;
};

GroupMembers members_of(const Parallel& parallel, std::int32_t ranks, DeviceGroup group) {
  const std::int64_t rank = parallel.devices_per_rank();
  const bool stages_are_nearer = parallel.order == PlacementOrder::tp_cp_ep_pp_dp;
  const std::int64_t copy = rank * (stages_are_nearer ? std::int64_t{ranks} : 1);
  switch (group) {
    case DeviceGroup::tensor:
      return {.inner = parallel.tensor};
    case DeviceGroup::context:
      return {.inner = parallel.context, .inner_stride = parallel.tensor};
    case DeviceGroup::expert:
      if (parallel.expert <= rank) return {.inner = parallel.expert};
      return {.inner = rank, .outer = (parallel.expert + rank - 1) / rank, .outer_stride = copy};
    case DeviceGroup::pipeline:
      return {.inner = ranks, .inner_stride = rank * (stages_are_nearer ? 1 : std::int64_t{parallel.data})};
    case DeviceGroup::data:
      return {.inner = parallel.context,
              .inner_stride = parallel.tensor,
              .outer = parallel.data,
              .outer_stride = copy};
    case DeviceGroup::expert_copies:
      // If an expert group is smaller than a rank, the same rank has several copies of each expert.
      if (parallel.expert <= rank) {
        return {.inner = rank / parallel.expert,
                .inner_stride = parallel.expert,
                .outer = parallel.data,
                .outer_stride = copy};
      }
      return {.outer = parallel.expert_copies(), .outer_stride = copy * (parallel.expert / rank)};
  }
  return {};
}

/// Returns the number of NVLink domains of `size` devices that contain members of the group. If the
/// distance of the sets exceeds a domain, each set is assumed to begin in another domain.
std::int64_t domains_of(const GroupMembers& members, std::int64_t size) {
  const auto touched = [&](std::int64_t count, std::int64_t stride, std::int64_t beyond) {
    return ((count - 1) * stride + beyond) / size + 1;
  };
  if (members.inner_stride >= size) return members.inner * members.outer;
  if (members.outer_stride >= size) return members.outer * touched(members.inner, members.inner_stride, 0);
  return touched(members.outer, members.outer_stride, (members.inner - 1) * members.inner_stride);
}

}  // namespace

std::int64_t group_domains(const Parallel& parallel, std::int32_t ranks, DeviceGroup group,
                           const DeviceType& device) {
  if (is_on_nvlink(parallel, ranks, group, device)) return 1;
  // The result is at least 2, because other groups of the same kind may cross the end of a domain even if the
  // first group does not.
  return std::max<std::int64_t>(2, domains_of(members_of(parallel, ranks, group), device.nvlink_devices));
}

double group_bytes_per_second(const Parallel& parallel, std::int32_t ranks, DeviceGroup group,
                              const DeviceType& device) {
  const double nvlink = device.link_bytes_per_second(true);
  const std::int64_t domains = group_domains(parallel, ranks, group, device);
  if (domains == 1) return nvlink;
  const double in_domain =
      static_cast<double>(group_size(parallel, ranks, group)) / static_cast<double>(domains);
  return std::min(std::max(1.0, in_domain) * device.link_bytes_per_second(false), nvlink);
}

bool orders_differ(Parallel parallel, std::int32_t ranks, const DeviceType& device) {
  // With one stage or one copy both orders give the same numbers.
  if (ranks == 1 || parallel.data == 1) return false;
  constexpr std::array kGroups = {DeviceGroup::expert, DeviceGroup::pipeline, DeviceGroup::data,
                                  DeviceGroup::expert_copies};
  std::array<std::array<std::int64_t, kGroups.size()>, 2> domains{};
  for (const PlacementOrder order : {PlacementOrder::tp_cp_ep_dp_pp, PlacementOrder::tp_cp_ep_pp_dp}) {
    parallel.order = order;
    for (std::size_t i = 0; i < kGroups.size(); ++i) {
      domains[static_cast<std::size_t>(order)][i] =
          kGroups[i] == DeviceGroup::pipeline
              ? std::int64_t{is_on_nvlink(parallel, ranks, kGroups[i], device)}
              : group_domains(parallel, ranks, kGroups[i], device);
    }
  }
  return domains[0] != domains[1];
}

std::int64_t device_count(const Parallel& parallel, std::int32_t ranks) {
  return std::int64_t{parallel.devices_per_rank()} * ranks * parallel.data;
}

// Recomputation is a set of parts of a layer, written as in Megatron-LM's --recompute-modules.

std::string to_text(LayerRecompute recompute) {
  std::vector<std::string_view> words;
  for (const auto& [part, word] : kEnumWords<RecomputedPart>) {
    if (recompute.has(part)) words.push_back(word);
  }
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, "+"));
}

tl::expected<LayerRecompute, std::string> parse_recompute(std::string_view text) {
  constexpr std::string_view kSeparators = "+,;| ";
  LayerRecompute recompute;
  std::size_t count = 0;
  bool is_none = false;
  for (std::size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const auto part = word == "core_attn"   ? RecomputedPart::selective
                      : word == "layernorm" ? RecomputedPart::norm
                                            : enum_of_text<RecomputedPart>(word);
    if (part) recompute.add(*part);
    if (!part && word != "none") {
      return tl::unexpected(fmt::format("expected none, or some of {}, joined by +, got \"{}\"",
                                        fmt::join(words_of<RecomputedPart>(), ", "), text));
    }
    is_none = is_none || word == "none";
    ++count;
    at = text.find_first_not_of(kSeparators, end);
  }
  if (count > 1 && (is_none || recompute.has(RecomputedPart::full))) {
    return tl::unexpected(fmt::format("expected {} alone, got \"{}\"; leave the other words out",
                                      is_none ? "none" : "full", text));
  }
  if (count > 0) return recompute;
  return tl::unexpected(std::string("expected what each layer recomputes, such as none, got \"\""));
}

// A workload must be divisible as stated. Tensor parallelism divides attention heads and feed-forward
// columns, and with sequence parallelism also tokens. Context parallelism divides tokens or heads. Expert
// parallelism divides experts.

namespace {

using Fault = std::optional<std::string>;

Fault undivided(std::string_view divisor_name, std::int64_t divisor, std::string_view what,
                std::int64_t number) {
  if (divisor > 0 && number % divisor == 0) return std::nullopt;
  return fmt::format("{}: expected a number that divides {}, {}, got {}", divisor_name, what, number,
                     divisor);
}

/// Returns an error message if tensor parallelism of degree `t` cannot divide these attention heads.
Fault heads_fault(std::int64_t t, std::int64_t heads, std::int64_t kv_heads) {
  if (auto fault = undivided("parallel.tensor", t, "the attention heads", heads)) return fault;
  // Each device has the same number of key heads, or each key head has copies on the same number of devices.
  if (t % std::min(t, kv_heads) == 0 && kv_heads % std::min(t, kv_heads) == 0) return std::nullopt;
  return fmt::format("parallel.tensor: expected a divisor or a multiple of the key heads, {}, got {}",
                     kv_heads, t);
}

/// Returns an error message if tensor and context parallelism cannot divide the heads of the recurrence.
Fault recurrence_fault(const Workload& work) {
  const RecurrentMixer& recurrence = *work.model.recurrence;
  const std::int64_t ways = std::int64_t{work.parallel.tensor} * work.parallel.context;
  if (auto fault =
          undivided("parallel.tensor x context", ways, "the recurrent heads", recurrence.value_heads))
    return fault;
  return undivided("parallel.tensor x context", ways, "the recurrent key heads", recurrence.key_heads);
}

/// Returns an error message if tensor parallelism cannot divide the sizes of the layer.
Fault layer_fault(const Workload& work, const LayerKind& kind) {
  const std::int64_t t = work.parallel.tensor;
  if (kind.has_attention && kind.heads) {
    if (auto fault = heads_fault(t, kind.heads->heads, kind.heads->kv_heads)) return fault;
  }
  if (kind.feed_forward == 0) return std::nullopt;
  return undivided("parallel.tensor", t, "the feed-forward width of a layer", kind.feed_forward);
}

Fault model_fault(const Workload& work) {
  const Architecture& model = work.model;
  const Parallel& parallel = work.parallel;
  const std::int64_t t = parallel.tensor;
  const std::int64_t c = parallel.context;
  if (auto fault = heads_fault(t, model.heads, model.kv_heads)) return fault;
  if (model.recurrence) {
    if (auto fault = recurrence_fault(work)) return fault;
  }
  for (const LayerKind& kind : model.layers) {
    if (auto fault = layer_fault(work, kind)) return fault;
  }
  // Tensor parallelism does not divide experts. If no layer has a dense part, its width need not be stated.
  const bool has_dense = std::ranges::any_of(model.layers, [](const LayerKind& kind) {
    return kind.has_feed_forward && !kind.has_experts && kind.feed_forward == 0;
  });
  if (has_dense) {
    if (auto fault = undivided("parallel.tensor", t, "the feed-forward width", model.feed_forward))
      return fault;
  }
  const bool is_ring = parallel.context_exchange == ContextExchange::ring;
  if (c > 1 && is_ring) {
    // Each device gets one part from the start and one from the end of the sequence. This divides the work of
    // causal attention evenly.
    if (auto fault = undivided("parallel.context", 2 * c, "the sequence (two parts each)", work.sequence)) {
      return fault;
    }
  } else if (c > 1) {
    if (auto fault = undivided("parallel.context", c * t, "the attention heads (with tensor)", model.heads)) {
      return fault;
    }
  }
  if (parallel.sequence_parallel && t > 1) {
    if (auto fault = undivided("parallel.tensor", t * c, "the sequence (sequence_parallel)", work.sequence)) {
      return fault;
    }
  }
  if (parallel.expert == 1) return std::nullopt;
  if (!model.experts) {
    return fmt::format("parallel.expert: expected 1 for a model without experts, got {}", parallel.expert);
  }
  if (auto fault = undivided("parallel.expert", parallel.expert, "the experts", model.experts->count)) {
    return fault;
  }
  return undivided("parallel.expert", parallel.expert, "tensor x context x data",
                   std::int64_t{parallel.tensor} * parallel.context * parallel.data);
}

Fault framework_fault(const Workload& work) {
  if (traits_of(work.framework).fused_attention || work.parallel.context == 1) return std::nullopt;
  return fmt::format("parallel.context: {} has no context parallelism, expected 1, got {}",
                     to_text(work.framework), work.parallel.context);
}

Fault precision_fault(const Workload& work) {
  const bool has = work.precision == GemmPrecision::bf16 ||
                   (work.precision == GemmPrecision::fp8 && work.device.fp8_flops_per_second > 0) ||
                   (work.precision == GemmPrecision::fp4 && work.device.fp4_flops_per_second > 0);
  if (has) return std::nullopt;
  return fmt::format(
      "training.precision: {} has no {} units; take bf16{}", work.device.name, to_text(work.precision),
      work.precision == GemmPrecision::fp4 && work.device.fp8_flops_per_second > 0 ? " or fp8" : "");
}

/// Returns an error message if the device's peak rate is lower for fewer bits. The head and attention
/// always use 16 bits, so the run could then exceed the peak rate that is used for the MFU.
Fault peak_fault(const Workload& work) {
  constexpr double kTera = 1e12;
  const double peak = peak_flops(work.device, work.precision);
  const double of_bf16 = work.device.bf16_flops_per_second;
  if (peak >= of_bf16) return std::nullopt;
  return fmt::format(
      "cluster.{}_flops: expected at least cluster.flops, {:g} TFLOP/s, got {:g} TFLOP/s; change one of them "
      "or take training.precision: bf16",
      to_text(work.precision), of_bf16 / kTera, peak / kTera);
}

}  // namespace

std::optional<std::string> fault_of(const Workload& work) {
  if (auto fault = model_fault(work)) return fault;
  if (auto fault = framework_fault(work)) return fault;
  if (auto fault = precision_fault(work)) return fault;
  return peak_fault(work);
}

// The model FLOP utilization (Chowdhery et al., PaLM, appendix B) uses the model's own operations without
// recomputation, and the devices of all copies.

double operations_of_sample(const Workload& work, std::int64_t sequence) {
  // A backward pass has twice the operations of a forward pass (flops_per_sample()).
  const double all = flops_per_sample(work.model, sequence);
  return work.is_forward_only() ? all / 3 : all;
}

Workload forward_only(Workload work, Passes passes) {
  work.passes = passes;
  work.recompute = LayerRecompute::none;
  work.recomputed_layers = {};
  work.gradient_bytes = work.optimizer_bytes = 0;
  work.deferred_head = false;
  work.model.multi_token = 0;
  work.predictions.clear();
  if (work.parallel.sharding < 3) work.parallel.sharding = 0;
  return work;
}

const RankDevices* later_devices_of(const Workload& work, std::int32_t rank) {
  const RankDevices* found = nullptr;
  for (const RankDevices& later : work.later_devices) {
    if (later.first_rank <= rank) found = &later;
  }
  return found;
}

const DeviceType& device_of_rank(const Workload& work, std::int32_t rank) {
  const RankDevices* const later = later_devices_of(work, rank);
  return later == nullptr ? work.device : later->device;
}

Workload on_devices_of_rank(Workload work, std::int32_t rank) {
  work.device = DeviceType(device_of_rank(work, rank));
  work.later_devices.clear();
  return work;
}

namespace {

/// Returns the peak rate of a device. If the ranks have unlike devices, returns the mean over the ranks.
double mean_peak_flops(const Workload& work) {
  if (work.later_devices.empty()) return peak_flops(work.device, work.precision);
  double sum = 0;
  for (std::int32_t rank = 0; rank < work.ranks; ++rank)
    sum += peak_flops(device_of_rank(work, rank), work.precision);
  return sum / work.ranks;
}

}  // namespace

TrainedModel trained_by(const Workload& work) {
  return {.parameters = parameters(work.model),
          .active_parameters = active_parameters(work.model),
          .flops_per_sample = operations_of_sample(work, work.sequence),
          .tokens_per_sample = work.sequence,
          .devices = device_count(work.parallel, work.ranks),
          .peak_flops_per_second = mean_peak_flops(work)};
}

}  // namespace penstock
