#pragma once
// How a model's work and weights are shared out over devices, and which links a group of them uses.

#include <array>
#include <cstdint>
#include <string_view>

#include "schedules/ir/gather.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export
#include "topology/device_types.hpp"

namespace penstock {

/// In which order neighbours are numbered, nearest first.
enum class PlacementOrder : std::uint8_t {
  tp_cp_ep_pp_dp,  // copies of the pipeline are furthest apart
  tp_cp_ep_dp_pp,  // stages are furthest apart (Megatron's default)
};
template <>
inline constexpr auto kEnumWords<PlacementOrder> = std::to_array<EnumWord<PlacementOrder>>(
    {{PlacementOrder::tp_cp_ep_pp_dp, "tp-cp-ep-pp-dp"}, {PlacementOrder::tp_cp_ep_dp_pp, "tp-cp-ep-dp-pp"}});

/// How a sequence that is shared out reaches the keys and values of the others.
enum class ContextExchange : std::uint8_t {
  ring,        // keys and values go round beside the attention of those that are there
  all_to_all,  // heads instead of tokens while attention runs
};
template <>
inline constexpr auto kEnumWords<ContextExchange> = std::to_array<EnumWord<ContextExchange>>(
    {{ContextExchange::ring, "ring"}, {ContextExchange::all_to_all, "all-to-all"}});

/// The degrees of parallelism. Degrees are at least 1; expert divides tensor x context x data.
struct Parallel {
  std::int32_t tensor = 1;
  std::int32_t context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  std::int32_t expert = 1;
  std::int32_t data = 1;  ///< copies of the pipeline
  PlacementOrder order = PlacementOrder::tp_cp_ep_pp_dp;
  bool sequence_parallel = true;  ///< what tensor parallelism leaves whole is shared along the sequence
  bool tensor_overlap = true;     ///< its collectives run beside the products
  bool data_overlap = true;       ///< gradients are reduced beside the backward pass
  /// What the copies of a weight share out (ZeRO): 0 nothing, 1 the optimizer's state, 2 gradients as well, 3
  /// weights as well.
  std::int32_t sharding = 1;
  Gather gather = Gather::microbatch;  ///< how often copies exchange what sharding 2 and 3 share out

  /// The sharding that a copy's memory and exchanges between a step's first and last microbatch follow:
  /// gathered once a step, weights and gradients are whole in between, as under sharding 1.
  std::int32_t sharding_between_steps() const {
    return gather == Gather::step && sharding > 1 ? 1 : sharding;
  }

  std::int32_t devices_per_rank() const { return tensor * context; }
  /// Copies of a weight that is no expert's: those whose gradients are reduced together.
  std::int32_t weight_copies() const { return data * context; }
  /// The same of an expert's weight.
  std::int32_t expert_copies() const { return data * context * tensor / expert; }

  friend bool operator==(const Parallel&, const Parallel&) = default;
};

/// Groups of devices that talk to each other.
enum class DeviceGroup : std::uint8_t { tensor, context, expert, pipeline, data };

/// Devices of a group.
std::int64_t group_size(const Parallel& parallel, std::int32_t ranks, DeviceGroup group);

/// The consecutive devices among which every group of the kind finds its members: its own size times all that
/// is numbered nearer. Experts share the devices of tensor, context and data parallelism.
std::int64_t group_span(const Parallel& parallel, std::int32_t ranks, DeviceGroup group);

/// Whether all groups of the kind stay on one NVLink domain.
bool is_on_nvlink(const Parallel& parallel, std::int32_t ranks, DeviceGroup group, const DeviceType& device);

/// NVLink domains among which a group of experts is spread, whose devices need not be neighbours; 1 where it
/// stays on one, and at least 2 where it does not.
double expert_domains(const Parallel& parallel, std::int32_t ranks, const DeviceType& device);

/// Devices that a pipeline of `ranks` ranks occupies with all its copies.
std::int64_t device_count(const Parallel& parallel, std::int32_t ranks);

}  // namespace penstock
