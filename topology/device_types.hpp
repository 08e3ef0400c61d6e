#pragma once
// Accelerators by name: their rates, memory and links, as far as training steps depend on them.
// scenarios/pricing prices models with them. A scenario can replace every figure.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "topology/cluster.hpp"

namespace penstock {

/// The memory of a device that a training run takes beside what its allocator counts. The CUDA context,
/// NCCL's buffers and fragmentation take 2 to 5 GiB.
inline constexpr std::int64_t kReservedBesideAllocator = std::int64_t{3} << 30;

/// One kind of accelerator in the node in which it is sold. Rates are those of dense operations and of one
/// direction of a link.
struct DeviceType {
  /// The name, such as "h100-sxm".
  std::string name;
  /// The name of the kernel tables that apply to it, such as "H100".
  std::string kernels;
  double bf16_flops_per_second = 0;
  /// The rate in fp8; 0 if the device has no such units.
  double fp8_flops_per_second = 0;
  /// The rate in fp4; 0 if the device has no such units.
  double fp4_flops_per_second = 0;
  double memory_bytes_per_second = 0;
  double nvlink_bytes_per_second = 0;
  /// The rate of the device's own network card.
  double network_bytes_per_second = 0;
  /// The devices of one NVLink domain.
  std::int32_t nvlink_devices = 8;
  std::int32_t devices_per_node = 8;
  std::int32_t multiprocessors = 1;
  /// The memory; 0 means unlimited.
  std::int64_t memory_bytes = 0;
  /// The part of the memory that the driver reserves, plus kReservedBesideAllocator.
  std::int64_t reserved_bytes = 0;
  /// The time of a matrix product in a training step divided by its time in a short burst; clocks and power
  /// cause the difference. The first value is for bf16 and fp8, the second for fp4.
  double sustained = 1;
  double sustained_fp4 = 1;
  /// The part of the memory's rate that elementwise kernels reach.
  double memory_efficiency = 0.8;
  double nvlink_efficiency = 0.75;
  double network_efficiency = 0.8;
  std::int64_t link_latency_ns = 5'000;
  /// The launch time of each memory-bound kernel.
  std::int64_t launch_ns = 2'000;
  /// The time of collectives between kernels divided by the time that they take alone, if nothing runs beside
  /// them.
  double collectives = 1.35;
  /// The part of the gradients' reduction over the network that a step exposes although computation runs
  /// beside it. What no computation hides is exposed in addition.
  double step_fraction = 0.30;

  /// Returns the memory that a plan may use; nothing if it is unlimited.
  std::optional<std::int64_t> usable_memory() const {
    return usable_bytes(memory_bytes > 0 ? std::optional(memory_bytes) : std::nullopt, reserved_bytes);
  }

  /// Returns the rate over one link to another device, with the link's efficiency.
  double link_bytes_per_second(bool on_nvlink) const {
    return on_nvlink ? nvlink_bytes_per_second * nvlink_efficiency
                     : network_bytes_per_second * network_efficiency;
  }

  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

/// Returns the known devices: a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300.
std::span<const DeviceType> device_types();
/// Returns the names of the known devices, separated by commas.
std::string device_type_names();
/// Returns the device of that name, or null if there is none. Case, '-' and '_' are ignored, and "-sxm" may
/// be omitted.
const DeviceType* find_device_type(std::string_view name);

}  // namespace penstock
