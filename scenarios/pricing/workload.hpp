#pragma once
// The subject of pricing: a model, its training, its devices and how it is divided among them.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/kernel_times.hpp"
#include "schedules/ir/shape.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export
#include "topology/device_types.hpp"

namespace penstock {

/// The order in which devices are numbered, nearest first.
enum class PlacementOrder : std::uint8_t {
  tp_cp_ep_dp_pp,  // stages are furthest apart (Megatron-LM's default)
  tp_cp_ep_pp_dp,  // copies of the pipeline are furthest apart (its --use-tp-pp-dp-mapping)
};
template <>
inline constexpr auto kEnumWords<PlacementOrder> = std::to_array<EnumWord<PlacementOrder>>(
    {{PlacementOrder::tp_cp_ep_dp_pp, "tp-cp-ep-dp-pp"}, {PlacementOrder::tp_cp_ep_pp_dp, "tp-cp-ep-pp-dp"}});

/// The exchange that gives the parts of a divided sequence the keys and values of the other parts.
enum class ContextExchange : std::uint8_t {
  ring,        // keys and values go round while attention runs on those that have arrived
  all_to_all,  // devices exchange tokens for heads while attention runs
};
template <>
inline constexpr auto kEnumWords<ContextExchange> = std::to_array<EnumWord<ContextExchange>>(
    {{ContextExchange::ring, "ring"}, {ContextExchange::all_to_all, "all-to-all"}});

/// The degrees of parallelism. They are at least 1, and expert divides tensor x context x data.
struct Parallel {
  std::int32_t tensor = 1;
  std::int32_t context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  std::int32_t expert = 1;
  /// The copies of the pipeline.
  std::int32_t data = 1;
  PlacementOrder order = PlacementOrder::tp_cp_ep_dp_pp;
  /// True if work that tensor parallelism does not divide is divided along the sequence.
  bool sequence_parallel = true;
  /// True if tensor collectives run beside the products.
  bool tensor_overlap = true;
  /// True if gradients are reduced beside the backward pass.
  bool data_overlap = true;
  /// The state that the copies of a weight divide among them (ZeRO): 0 nothing, 1 the optimizer's state, 2
  /// also gradients, 3 also weights.
  std::int32_t sharding = 1;
  /// The frequency with which copies exchange the parts that sharding 2 and 3 distribute.
  Gather gather = Gather::microbatch;
  /// The values that copies exchange in one collective: a bucket of gradients or of weights. The default is
  /// Megatron-LM's.
  std::int64_t bucket_size = 40'000'000;

  /// Returns the sharding for a copy's memory and exchanges inside a step. If weights are gathered once a
  /// step, weights and gradients are whole inside the step, as with sharding 1.
  std::int32_t sharding_between_steps() const {
    return gather == Gather::step && sharding > 1 ? 1 : sharding;
  }

  /// Returns the devices of one rank.
  std::int32_t devices_per_rank() const { return tensor * context; }
  /// Returns the copies of a weight outside experts, whose gradients are reduced together.
  std::int32_t weight_copies() const { return data * context; }
  /// Returns the copies of an expert's weight.
  std::int32_t expert_copies() const { return data * context * tensor / expert; }

  friend bool operator==(const Parallel&, const Parallel&) = default;
};

/// The kinds of groups of devices that communicate.
enum class DeviceGroup : std::uint8_t {
  tensor,
  context,
  expert,
  pipeline,
  data,           // the copies of a weight outside experts
  expert_copies,  // the copies of an expert's weight
};

/// Returns the number of devices in a group.
std::int64_t group_size(const Parallel& parallel, std::int32_t ranks, DeviceGroup group);

/// Returns a number of consecutive devices that contains every group of the kind: the group's size times
/// everything that is numbered nearer. Experts use the devices of tensor, context and data parallelism.
std::int64_t group_span(const Parallel& parallel, std::int32_t ranks, DeviceGroup group);

/// Returns true if all groups of the kind stay on one NVLink domain.
bool is_on_nvlink(const Parallel& parallel, std::int32_t ranks, DeviceGroup group, const DeviceType& device);

/// Returns the number of NVLink domains over which a group is spread, whose devices need not be adjacent: 1
/// if all groups of the kind stay on one domain, otherwise at least 2.
std::int64_t group_domains(const Parallel& parallel, std::int32_t ranks, DeviceGroup group,
                           const DeviceType& device);

/// Returns the bytes a second that pass between the NVLink domains of a group while all its members take part
/// in one collective. Every member has its own network card, so k members of a domain reach
/// min(k x network, NVLink). Inside one domain it is the rate of NVLink.
double group_bytes_per_second(const Parallel& parallel, std::int32_t ranks, DeviceGroup group,
                              const DeviceType& device);

/// Returns true if some group or edge of the pipeline has another rate in the other order of devices.
bool orders_differ(Parallel parallel, std::int32_t ranks, const DeviceType& device);

/// Returns the devices of a pipeline of `ranks` ranks with all its copies.
std::int64_t device_count(const Parallel& parallel, std::int32_t ranks);

// The parts of a layer that the backward pass computes again.

/// The part of a layer that its backward pass computes again instead of storing its activations.
enum class LayerRecompute : std::uint8_t {
  none,
  // The attention core. A fused kernel stores nothing, so this choice changes neither time nor bytes.
  selective,
  norm,        // the outputs of both norms
  activation,  // the output of the feed-forward's activation
  mlp,         // the first product of a dense feed-forward part or of a shared expert
  full,        // everything except the layer's input
};
/// The words of training.recompute in scenarios. They follow Megatron-LM's --recompute-granularity and
/// --recompute-modules, and the tables of SimuMax.
template <>
inline constexpr auto kEnumWords<LayerRecompute> =
    std::to_array<EnumWord<LayerRecompute>>({{LayerRecompute::none, "none"},
                                             {LayerRecompute::selective, "selective"},
                                             {LayerRecompute::norm, "norm"},
                                             {LayerRecompute::activation, "activation"},
                                             {LayerRecompute::mlp, "mlp"},
                                             {LayerRecompute::full, "full"}});

/// One training step without its schedule. Requires degrees that divide what they share.
struct Workload {
  Architecture model;
  /// The tokens of a sample.
  std::int64_t sequence = 1;
  std::int64_t micro_batch_size = 1;
  Parallel parallel;
  /// The ranks of one pipeline.
  std::int32_t ranks = 1;
  DeviceType device;
  GemmPrecision precision = GemmPrecision::bf16;
  LayerRecompute recompute = LayerRecompute::none;
  /// The bytes of a gradient for each parameter.
  std::int32_t gradient_bytes = 4;
  /// The bytes of the optimizer's state for each parameter. Adam with copies of the weights in 4 bytes needs
  /// 12.
  std::int32_t optimizer_bytes = 12;
  /// The time of a layer of experts, both passes together, that no known term explains. It belongs to a
  /// device and a release of the software, so it is 0 until it is stated or fitted.
  double unexplained_expert_seconds = 0;
  /// The least time of a layer's forward and backward together, because the host launches its kernels.
  double host_layer_seconds = 0;
  /// True if the head's weight gradient is computed once, at the end of the step.
  bool deferred_head = false;

  friend bool operator==(const Workload&, const Workload&) = default;

  /// Returns the tokens of a microbatch on one device of a rank.
  double tokens() const { return static_cast<double>(micro_batch_size * sequence) / parallel.context; }
};

/// Returns the dense operations a second of the device at a precision; 0 if it has no such units.
double peak_flops(const DeviceType& device, GemmPrecision precision);
/// Returns the rates that models of the device's products need.
DeviceRates rates_of(const DeviceType& device, GemmPrecision precision);
/// Returns the device's sustained factor in a run of the workload's precision. It applies to products of all
/// precisions, because power causes it.
double sustained_factor(const Workload& work);

// Finds the reasons why a workload cannot be divided as stated, or cannot run on its devices.

/// Returns the message for the first fault, or nothing if there is none. A fault is a size that does not
/// divide, with its scenario key, or a precision. The devices may lack the precision, or be slower in it than
/// in bf16.
std::optional<std::string> fault_of(const Workload& work);

// The training of all copies of a pipeline, for figures such as the MFU and the number of devices.

/// The model and the devices that all copies of a pipeline together train and occupy.
struct TrainedModel {
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
  double flops_per_sample = 0;  ///< the model's own operations, with nothing computed twice
  std::int64_t tokens_per_sample = 1;
  std::int64_t devices = 1;          ///< the devices that all copies occupy
  std::int32_t copies = 1;           ///< the copies of the pipeline; the program is one copy
  double peak_flops_per_second = 0;  ///< the peak of one device at the training's precision

  friend bool operator==(const TrainedModel&, const TrainedModel&) = default;
};

/// Returns the figures of a workload. Requires that all its degrees are set.
TrainedModel trained_by(const Workload& work);

}  // namespace penstock
