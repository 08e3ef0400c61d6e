#pragma once
// Defines accelerators by name: the rates, memory and links on which training steps depend. The files in
// scenarios/pricing compute the times of a model from them. A scenario can replace every value.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "topology/cluster.hpp"

namespace penstock {

/// The bytes of device memory that a training run needs in addition to the bytes that its allocator counts.
/// The CUDA context, NCCL's buffers and fragmentation take 2 to 5 GiB.
inline constexpr std::int64_t kReservedBesideAllocator = std::int64_t{3} << 30;

/// One type of accelerator, and the server in which it is sold. Compute rates are for dense matrices. A
/// rate of a link is for one direction.
struct DeviceType {
  /// The name, such as "h100-sxm".
  std::string name;
  /// The name of the tables of kernel times that the device uses, such as "H100".
  std::string kernels;
  /// False if these kernel times were measured on another type of device. They are then scaled by the ratio
  /// of the peak rates.
  bool has_own_kernels = true;
  double bf16_flops_per_second = 0;
  /// The peak compute rate in fp8; 0 if the device does not support fp8.
  double fp8_flops_per_second = 0;
  /// The peak compute rate in fp4; 0 if the device does not support fp4.
  double fp4_flops_per_second = 0;
  double memory_bytes_per_second = 0;
  double nvlink_bytes_per_second = 0;
  /// The rate of the network card of one device, in bytes per second.
  double network_bytes_per_second = 0;
  /// The number of devices in one NVLink domain.
  std::int32_t nvlink_devices = 8;
  std::int32_t devices_per_node = 8;
  std::int32_t multiprocessors = 1;
  /// The memory in bytes; 0 means unlimited.
  std::int64_t memory_bytes = 0;
  /// Bytes of the memory that the driver reserves, plus kReservedBesideAllocator.
  std::int64_t reserved_bytes = 0;
  /// The time of a matrix product in a training step divided by its time in a short burst. In a long run,
  /// clocks are lower and power is limited. Each precision has its own factor; `sustained` is for bf16.
  double sustained = 1;
  double sustained_fp8 = 1;
  double sustained_fp4 = 1;
  /// The fraction of the memory bandwidth that elementwise kernels reach.
  double memory_efficiency = 0.8;
  double nvlink_efficiency = 0.75;
  double network_efficiency = 0.8;
  std::int64_t link_latency_ns = 5'000;
  /// The time to launch one kernel that is limited by the memory bandwidth.
  std::int64_t launch_ns = 2'000;
  /// The slowdown of a collective in a training step, when no computation runs at the same time. It is the
  /// collective's time divided by its time if it runs alone.
  double collectives = 1.35;
  /// The fraction of the time of gradient reductions over the network by which the step becomes longer,
  /// although computation runs at the same time. The time of a reduction without simultaneous computation
  /// is added completely.
  double step_fraction = 0.30;

  /// Returns the bytes of memory that a plan may use, or nothing if the memory is unlimited.
  std::optional<std::int64_t> usable_memory() const {
    return usable_bytes(memory_bytes > 0 ? std::optional(memory_bytes) : std::nullopt, reserved_bytes);
  }

  /// Returns the rate of one link to another device in bytes per second. It is the link's rate multiplied
  /// by the link's efficiency.
  double link_bytes_per_second(bool on_nvlink) const {
    return on_nvlink ? nvlink_bytes_per_second * nvlink_efficiency
                     : network_bytes_per_second * network_efficiency;
  }

  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

/// Returns the known devices: a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, a800, h800, h20,
/// l40s, mi300x, mi325x, tpu-v5p.
std::span<const DeviceType> device_types();
/// Returns the names of the known devices, separated by commas.
std::string device_type_names();
/// Returns the device type with that name, or null if there is none. Ignores case, '-' and '_', and "-sxm"
/// may be omitted.
const DeviceType* find_device_type(std::string_view name);

}  // namespace penstock
