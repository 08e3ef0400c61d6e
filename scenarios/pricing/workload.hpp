#pragma once
// A workload, from which times and bytes are computed: a model, its training, its devices and its degrees of
// parallelism.

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export
#include "topology/presets.hpp"

namespace penstock {

/// The order in which the groups of parallelism number the devices. A name lists the groups. The members of
/// the first group have adjacent devices, and the members of the last group are farthest apart.
enum class PlacementOrder : std::uint8_t {
  tp_cp_ep_dp_pp,  // stages have the largest distances (Megatron-LM's default)
  tp_cp_ep_pp_dp,  // copies of the pipeline have the largest distances (Megatron-LM's --use-tp-pp-dp-mapping)
};
template <>
inline constexpr auto kEnumWords<PlacementOrder> = std::to_array<EnumWord<PlacementOrder>>(
    {{PlacementOrder::tp_cp_ep_dp_pp, "tp-cp-ep-dp-pp"}, {PlacementOrder::tp_cp_ep_pp_dp, "tp-cp-ep-pp-dp"}});

/// The exchange of context parallelism, in which each part of a divided sequence gets the keys and values
/// of the other parts.
enum class ContextExchange : std::uint8_t {
  ring,  // each device sends keys and values to the next device while its attention uses the received ones
  all_to_all,  // each device exchanges its tokens of all heads for all tokens of some heads
};
template <>
inline constexpr auto kEnumWords<ContextExchange> = std::to_array<EnumWord<ContextExchange>>(
    {{ContextExchange::ring, "ring"}, {ContextExchange::all_to_all, "all-to-all"}});

/// The software that sends tokens to the devices of their experts.
enum class ExpertDispatch : std::uint8_t {
  alltoall,  // an all-to-all that sends a token once for each of its experts
  deepep,    // DeepEP, which sends a token once to each device and node that needs it
  hybridep,  // Hybrid-EP, which does the same within and between NVLink domains
};
template <>
inline constexpr auto kEnumWords<ExpertDispatch> =
    std::to_array<EnumWord<ExpertDispatch>>({{ExpertDispatch::alltoall, "alltoall"},
                                             {ExpertDispatch::deepep, "deepep"},
                                             {ExpertDispatch::hybridep, "hybridep"}});

/// The degrees of parallelism. All are at least 1, and tensor x context x data is a multiple of expert.
struct Parallel {
  std::int32_t tensor = 1;
  std::int32_t context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  std::int32_t expert = 1;
  ExpertDispatch expert_dispatch = ExpertDispatch::alltoall;
  /// True if the forward pass sends tokens to experts in 8 bits.
  bool fp8_dispatch = false;
  /// True if the exchange of tokens with experts runs at the same time as the computation of another
  /// microbatch.
  bool expert_overlap = false;
  /// The number of copies of the pipeline.
  std::int32_t data = 1;
  PlacementOrder order = PlacementOrder::tp_cp_ep_dp_pp;
  /// True if the devices of a tensor group divide the sequence for norms and other parts of a layer
  /// (sequence parallelism).
  bool sequence_parallel = true;
  /// True if tensor collectives overlap with matrix products.
  bool tensor_overlap = true;
  /// True if the reduction of gradients overlaps with the backward pass.
  bool data_overlap = true;
  /// The state that the copies of a weight divide among them (ZeRO): 0 nothing, 1 the optimizer state, 2
  /// also the gradients, 3 also the weights.
  std::int32_t sharding = 1;
  /// The frequency with which copies exchange weights and gradients with sharding 2 and 3.
  Gather gather = Gather::microbatch;
  /// The number of gradients or weights that copies exchange in one collective. The default is Megatron-LM's.
  std::int64_t bucket_size = 40'000'000;

  /// Returns the degree of sharding that determines a copy's memory and exchanges inside a step. If weights
  /// are gathered once a step, it is at most 1, because each copy then stores all weights and gradients
  /// inside the step.
  std::int32_t sharding_between_steps() const {
    return gather == Gather::step && sharding > 1 ? 1 : sharding;
  }

  /// Returns the number of devices of one rank.
  std::int32_t devices_per_rank() const { return tensor * context; }
  /// Returns the number of copies of a weight that is not part of an expert. The gradients of these copies
  /// are reduced together.
  std::int32_t weight_copies() const { return data * context; }
  /// Returns the number of copies of an expert's weight.
  std::int32_t expert_copies() const { return data * context * tensor / expert; }

  friend bool operator==(const Parallel&, const Parallel&) = default;
};

/// The kinds of groups of devices that communicate.
enum class DeviceGroup : std::uint8_t {
  tensor,
  context,
  expert,
  pipeline,
  data,           // the copies of a weight that is not part of an expert
  expert_copies,  // the copies of an expert's weight
};

/// Returns the number of devices in a group.
std::int64_t group_size(const Parallel& parallel, std::int32_t ranks, DeviceGroup group);

/// Returns the number of consecutive devices from the first to the last member of a group of this kind. It
/// counts whole ranks, so it may exceed the distance of the members. Experts use the devices of tensor,
/// context and data parallelism.
std::int64_t group_span(const Parallel& parallel, std::int32_t ranks, DeviceGroup group);

/// Returns true if each group of the kind is inside one NVLink domain.
bool is_on_nvlink(const Parallel& parallel, std::int32_t ranks, DeviceGroup group, const DeviceType& device);

/// Returns the number of NVLink domains that contain members of one group. It is 1 if each group of the kind
/// is inside one domain, and at least 2 otherwise.
std::int64_t group_domains(const Parallel& parallel, std::int32_t ranks, DeviceGroup group,
                           const DeviceType& device);

/// Returns the rate of a group's collective in bytes a second. Inside one NVLink domain, it is the rate of
/// NVLink. Between domains, each member uses its own network card, so k members in a domain reach min(k x
/// network, NVLink).
double group_bytes_per_second(const Parallel& parallel, std::int32_t ranks, DeviceGroup group,
                              const DeviceType& device);

/// Returns true if the other PlacementOrder would change the rate of a group or of an edge of the pipeline.
bool orders_differ(Parallel parallel, std::int32_t ranks, const DeviceType& device);

/// Returns the number of devices of all copies of a pipeline of `ranks` ranks.
std::int64_t device_count(const Parallel& parallel, std::int32_t ranks);

/// A part of a layer that its backward pass can compute again instead of storing its activations.
enum class RecomputedPart : std::uint8_t {
  // Attention without its projections. A fused kernel always recomputes attention, so this part changes
  // times and bytes only in frameworks without fused attention.
  selective,
  norm,            // the outputs of both norms
  activation,      // the output of the feed-forward's activation
  mlp,             // the first product of a dense feed-forward part or of a shared expert
  mla_up_proj,     // the queries, keys and values that latent attention makes from its latents
  moe_act,         // the output of the experts' activation
  shared_experts,  // the whole shared expert
  moe,             // the whole feed-forward part of a layer of experts, with its exchange
  full,            // everything except the layer's input
};
/// The words of training.recompute in scenarios. They follow Megatron-LM's --recompute-granularity and
/// --recompute-modules, and the tables of SimuMax.
template <>
inline constexpr auto kEnumWords<RecomputedPart> =
    std::to_array<EnumWord<RecomputedPart>>({{RecomputedPart::selective, "selective"},
                                             {RecomputedPart::norm, "norm"},
                                             {RecomputedPart::activation, "activation"},
                                             {RecomputedPart::mlp, "mlp"},
                                             {RecomputedPart::mla_up_proj, "mla_up_proj"},
                                             {RecomputedPart::moe_act, "moe_act"},
                                             {RecomputedPart::shared_experts, "shared_experts"},
                                             {RecomputedPart::moe, "moe"},
                                             {RecomputedPart::full, "full"}});

/// A set of the parts of a layer that the backward pass recomputes.
class LayerRecompute {
 public:
  // NOLINTBEGIN(readability-identifier-naming): named like the words of an enum
  static const LayerRecompute none;
  static const LayerRecompute selective;
  static const LayerRecompute norm;
  static const LayerRecompute activation;
  static const LayerRecompute mlp;
  static const LayerRecompute full;
  // NOLINTEND(readability-identifier-naming)

  constexpr LayerRecompute() = default;
  constexpr LayerRecompute(std::initializer_list<RecomputedPart> parts) {
    for (const RecomputedPart part : parts) add(part);
  }

  constexpr void add(RecomputedPart part) { parts_ |= bit(part); }
  constexpr bool has(RecomputedPart part) const { return (parts_ & bit(part)) != 0; }

  friend constexpr auto operator<=>(const LayerRecompute&, const LayerRecompute&) = default;

 private:
  static constexpr std::uint32_t bit(RecomputedPart part) { return 1U << static_cast<unsigned>(part); }
  std::uint32_t parts_ = 0;
};
// NOLINTBEGIN(readability-identifier-naming): named like the words of an enum
inline constexpr LayerRecompute LayerRecompute::none{};
inline constexpr LayerRecompute LayerRecompute::selective{RecomputedPart::selective};
inline constexpr LayerRecompute LayerRecompute::norm{RecomputedPart::norm};
inline constexpr LayerRecompute LayerRecompute::activation{RecomputedPart::activation};
inline constexpr LayerRecompute LayerRecompute::mlp{RecomputedPart::mlp};
inline constexpr LayerRecompute LayerRecompute::full{RecomputedPart::full};
// NOLINTEND(readability-identifier-naming)

/// Returns the names of all recomputed parts, joined by '+', such as "mla_up_proj+mlp". Returns "none" if
/// nothing is recomputed.
std::string to_text(LayerRecompute recompute);
/// Reads names of recomputed parts that are separated by plus signs, commas, semicolons or spaces.
/// Megatron-LM's names core_attn and layernorm stand for selective and norm. Returns an error that lists
/// the known names if one is unknown.
tl::expected<LayerRecompute, std::string> parse_recompute(std::string_view text);

/// The layers that full recomputation applies to (Megatron-LM's --recompute-method and
/// --recompute-num-layers).
struct RecomputedLayers {
  enum class Method : std::uint8_t {
    all,      // every layer is recomputed
    block,    // the first `count` layers of each model stage
    uniform,  // every layer, but only one input is stored for each group of `count` layers
    listed,   // the layers `layers` of the model
  };
  Method method = Method::all;
  std::int64_t count = 1;
  /// The indices of the recomputed layers for Method::listed, counted from 0, in ascending order.
  std::vector<std::int64_t> layers{};

  friend bool operator==(const RecomputedLayers&, const RecomputedLayers&) = default;
};
/// Returns a text for notes, such as " of the first 3 layers of each stage", or an empty text for all layers.
std::string to_text(const RecomputedLayers& layers);

/// The software that trains a model. It decides which kernels are fused and what is held in memory.
enum class Framework : std::uint8_t {
  megatron_te,    // Megatron-LM or NeMo with Transformer Engine: fused attention, loss and dropout
  torchtitan,     // PyTorch with FSDP and a compiler, in 2024: FlashAttention-2, and a loss in 32 bits
  megatron_2021,  // Megatron-LM before fused attention: it stores scores and dropout masks
  llm_foundry,    // PyTorch with FSDP and no compiler, in 2023: attention in Triton, and separate kernels
};
template <>
inline constexpr auto kEnumWords<Framework> =
    std::to_array<EnumWord<Framework>>({{Framework::megatron_te, "megatron-te"},
                                        {Framework::torchtitan, "torchtitan"},
                                        {Framework::megatron_2021, "megatron-2021"},
                                        {Framework::llm_foundry, "llm-foundry"}});

/// The properties in which frameworks differ.
struct FrameworkTraits {
  /// True if attention is one kernel, which stores no scores.
  bool fused_attention = true;
  /// True if fused attention is FlashAttention-2 or older. It lacks the matrix instructions of Hopper.
  bool flash_attention_2 = false;
  /// The time of fused attention, divided by the time of FlashAttention-2 or of the device's table.
  double attention_factor = 1;
  /// The bytes that dropout masks move in each pass, for each value of the residual adds.
  double mask_bytes = 0;
  /// The bytes that separate (not fused) kernels move in a layer's backward pass, for each value of the
  /// layer's input.
  double separate_bytes = 0;
  /// True if the backward pass begins to gather the weights of a layer only when it has the gradients of the
  /// layer before. Then no computation hides this exchange.
  bool gathers_after_gradients = false;
  /// The bytes that the framework moves to copy and convert the gradient of each weight. It is 0 if the
  /// kernels of matrix products add gradients directly to their sum.
  double gradient_copy_bytes = 0;
  /// True if tensor-parallel layers gather their inputs again for the weight gradients instead of storing
  /// them.
  bool gathers_inputs_again = true;
  /// True if tensor-parallel layers gather values of 8 bits for products of 8 bits.
  bool gathers_in_fp8 = false;
  /// True if the collectives of tensor parallelism overlap with products by default.
  bool overlaps_tensor_collectives = true;
  /// The bytes that the loss moves for each logit in the forward pass.
  double loss_forward_bytes = 6;
  double loss_backward_bytes = 4;
  /// The bytes that the head holds for each logit while it runs.
  double logit_bytes = 2;
  /// True if the framework holds a placeholder gradient for each shape of weights (Transformer Engine).
  bool holds_placeholders = true;
};
/// Returns the properties of a framework.
FrameworkTraits traits_of(Framework framework);

/// The kind of device that ranks from `first_rank` on have.
struct RankDevices {
  std::int32_t first_rank = 0;
  DeviceType device;
  std::shared_ptr<const KernelTables> kernels{};

  friend bool operator==(const RankDevices&, const RankDevices&) = default;
};

/// The seconds that the host of Megatron Bridge needs for a layer of experts without CUDA graphs. One step of
/// Qwen3-30B with microbatches of one sample shows it (8 B200, release 26.02): 27.05 s for 64 microbatches of
/// 48 layers. The kernels need less than half of this time.
inline constexpr double kHostLayerSeconds = 27.05 / (64 * 48);

/// One training step, without its schedule. The sizes of the model must be divisible by the degrees of
/// parallelism; fault_of() checks this.
struct Workload {
  Architecture model;
  /// The number of tokens of a sample, or of a slice of it.
  std::int64_t sequence = 1;
  /// The number of tokens of the same sample in earlier slices. Attention also uses the keys and values of
  /// these tokens.
  std::int64_t before = 0;
  std::int64_t micro_batch_size = 1;
  Parallel parallel;
  /// The number of ranks of one pipeline.
  std::int32_t ranks = 1;
  DeviceType device;
  /// The devices of the ranks that do not have the kind `device`, in ascending order of ranks. Empty if all
  /// ranks have `device`.
  std::vector<RankDevices> later_devices{};
  GemmPrecision precision = GemmPrecision::bf16;
  LayerRecompute recompute = LayerRecompute::none;
  /// The layers to which LayerRecompute::full applies. All other recomputation applies to every layer.
  RecomputedLayers recomputed_layers{};
  /// The bytes of the gradient of one parameter.
  std::int32_t gradient_bytes = 4;
  /// The bytes of the optimizer state of one parameter. Adam needs 12, with a copy of the weight in 4 bytes.
  std::int32_t optimizer_bytes = 12;
  /// The time that a layer with experts computes, divided by the time of its kernels alone. It depends on
  /// the release of the software: on its CUDA graphs, its fused kernels and the gaps between them.
  double expert_factor = 1;
  /// The seconds of both passes of a layer of experts that no term of the cost formulas explains. They depend
  /// on the device and on the release of the software. The value is 0 unless the scenario states it or it was
  /// fitted.
  double unexplained_expert_seconds = 0;
  /// The seconds that the host needs to launch all kernels of a layer. Forward and backward pass together
  /// take at least this time. It is 0 if CUDA graphs launch the kernels, or if the host is never late.
  double host_layer_seconds = 0;
  /// True if the head's weight gradient is not computed in each microbatch, but once at the end of the
  /// step.
  bool deferred_head = false;
  /// The number of multi-token-prediction layers of each model stage; empty if all are on the last stage.
  std::vector<std::int64_t> predictions{};
  Framework framework = Framework::megatron_te;
  /// The passes that each microbatch runs. Without backward passes, there are no gradients, no optimizer
  /// and no reduction.
  Passes passes = Passes::both;
  /// The seconds that each F, B, I and W takes in addition to its kernels. They contain the calls that send
  /// messages, and the switch between chunks and microbatches.
  double action_seconds = 0;
  /// The seconds that each step takes in addition to all other costs. They contain loading data, logging,
  /// and the start of the first kernels.
  double step_seconds = 0;

  friend bool operator==(const Workload&, const Workload&) = default;

  bool is_forward_only() const { return passes != Passes::both; }
  /// Returns the number of tokens of a microbatch on one device of a rank.
  double tokens() const { return static_cast<double>(micro_batch_size * sequence) / parallel.context; }
  /// Returns the number of tokens of a sample to which its last token attends.
  std::int64_t seen() const { return before + sequence; }
};

/// Returns the entry of `later_devices` that applies to a rank, or null if the rank has `work.device`.
const RankDevices* later_devices_of(const Workload& work, std::int32_t rank);
/// Returns the device of a rank.
const DeviceType& device_of_rank(const Workload& work, std::int32_t rank);
/// Returns a copy of the workload in which all ranks have the same kind of device as `rank`.
Workload on_devices_of_rank(Workload work, std::int32_t rank);

/// A workload whose model has the sizes of the layers of one kind. If these layers have no sizes of their
/// own, this object refers to the given workload. The given workload must therefore outlive it.
class LayerWorkload {
 public:
  LayerWorkload(const Workload& work, const LayerKind& kind) : given_(&work) {
    if (!has_own_sizes(kind)) return;
    own_ = work;
    own_->model = sized_for(work.model, kind);
  }

  const Workload& operator*() const { return own_ ? *own_ : *given_; }

 private:
  const Workload* given_;
  std::optional<Workload> own_;
};

/// Returns the device's peak rate at a precision, in dense operations a second. Returns 0 if the device
/// lacks the precision.
double peak_flops(const DeviceType& device, GemmPrecision precision);
/// Returns the rates of the device that modelled_gemm_seconds() needs.
DeviceRates rates_of(const DeviceType& device, GemmPrecision precision);
/// Returns a pointer to the member of DeviceType that holds the sustained factor of a precision.
double DeviceType::* sustained_of(GemmPrecision precision);
/// Returns the device's sustained factor for the workload's precision: the time of products in a training
/// step over their time in a burst. The head's product and routers always have 16 bits, so the factor of
/// bf16 applies to them.
double sustained_factor(const Workload& work);

/// Returns the message for the first fault of a workload, or nothing if there is none. Faults are sizes that
/// cannot be divided as stated, and precisions that the devices lack. A precision in which the devices are
/// slower than in bf16 is also a fault.
std::optional<std::string> fault_of(const Workload& work);

/// The sizes of the model and the rates of the devices of all pipeline copies. Results such as the MFU are
/// computed from them.
struct TrainedModel {
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
  double flops_per_sample = 0;  ///< the model's own operations, without recomputation
  std::int64_t tokens_per_sample = 1;
  std::int64_t devices = 1;          ///< the number of devices of all copies
  double peak_flops_per_second = 0;  ///< the peak of one device at the training's precision

  friend bool operator==(const TrainedModel&, const TrainedModel&) = default;
};

/// Returns the operations for one sample of `sequence` tokens. They are those of the passes that the
/// workload runs.
double operations_of_sample(const Workload& work, std::int64_t sequence);
/// Returns the workload with forward passes alone, without recomputation, gradients or optimizer state.
/// With sharding 3, the copies still divide the weights among them, but no other state.
/// Multi-token-prediction layers are left out, because only training uses them.
Workload forward_only(Workload work, Passes passes);
/// Returns the sizes and rates from which results of this workload are computed. Requires that all its
/// degrees of parallelism are set.
TrainedModel trained_by(const Workload& work);

}  // namespace penstock
