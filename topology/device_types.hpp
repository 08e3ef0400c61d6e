#pragma once
// Accelerators by name: what one of them computes, holds and sends, as far as training steps depend on it.
// scenarios/pricing prices models on them; every figure can be replaced by a scenario.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "topology/cluster.hpp"

namespace penstock {

/// Memory that a training run takes of a device beside what its allocator counts: the CUDA context, NCCL's
/// buffers and fragmentation take 2 to 5 GiB.
inline constexpr std::int64_t kReservedBesideAllocator = std::int64_t{3} << 30;

/// One kind of accelerator in the node that it is sold in. Rates are of dense operations and of one direction
/// of a link.
struct DeviceType {
  std::string name;     ///< "h100-sxm"
  std::string kernels;  ///< whose kernel tables it takes: "H100"
  double bf16_flops_per_second = 0;
  double fp8_flops_per_second = 0;  ///< 0: it has no such units
  double fp4_flops_per_second = 0;  ///< 0: it has no such units
  double memory_bytes_per_second = 0;
  double nvlink_bytes_per_second = 0;
  double network_bytes_per_second = 0;  ///< of its own network card
  std::int32_t nvlink_devices = 8;      ///< on one NVLink domain
  std::int32_t devices_per_node = 8;
  std::int32_t multiprocessors = 1;
  std::int64_t memory_bytes = 0;    ///< 0: unlimited
  std::int64_t reserved_bytes = 0;  ///< of it, what the driver does not give and kReservedBesideAllocator
  /// Time of a matrix product in a training step over its time in a short burst, which clocks and power make;
  /// in bf16 and fp8, and in fp4.
  double sustained = 1;
  double sustained_fp4 = 1;
  double memory_efficiency = 0.8;  ///< part of the memory's rate that elementwise kernels reach
  double nvlink_efficiency = 0.75;
  double network_efficiency = 0.8;
  std::int64_t link_latency_ns = 5'000;
  std::int64_t launch_ns = 2'000;  ///< of each memory-bound kernel
  /// Collectives between kernels over the time that they take alone, where nothing runs beside them.
  double collectives = 1.35;
  /// Part of the gradients' reduction over the network that stays exposed once a step though it is
  /// overlapped, beside the first chunk's.
  double step_fraction = 0.30;

  /// Returns what a plan may use of its memory; nothing where it is unlimited.
  std::optional<std::int64_t> usable_memory() const {
    return usable_bytes(memory_bytes > 0 ? std::optional(memory_bytes) : std::nullopt, reserved_bytes);
  }

  /// What it reaches over one link to another device, efficiency counted.
  double link_bytes_per_second(bool on_nvlink) const {
    return on_nvlink ? nvlink_bytes_per_second * nvlink_efficiency
                     : network_bytes_per_second * network_efficiency;
  }

  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

/// The devices that are known: a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300.
std::span<const DeviceType> device_types();
/// Their names, divided by commas.
std::string device_type_names();
/// The device of that name (case, '-' and '_' are ignored, "-sxm" may be left out); null when there is none.
const DeviceType* find_device_type(std::string_view name);

}  // namespace penstock
