// The constants of accelerators, with their sources. Peak rates, memory, NVLink and sizes come from the
// vendor's data sheets and from the system files of ai-dynamo/aiconfigurator (095f58a5, Apache-2.0). The
// value 0.8 for elementwise kernels also comes from these files. Three values are assumptions: a network
// card of 400 Gb/s for B200 and GB200, the efficiencies of links (0.75 and 0.8), and the latency of links
// (5 us). The latencies of a ring's steps are those with which NCCL chooses its algorithms: rings with the
// protocol Simple, 3.4 us over NVLink and 14 us over the network (hwLat in NCCL 2.18's src/graph/tuning.cc).
//
// The sustained factors depend on how much power is available. A100's factor is 1. B200's factor compares two
// sources: SimuMax's kernels (4dcaae51), sustained on one machine, and the tables of
// scenarios/library/kernels. The other factors were estimated from published training steps (MLPerf training
// 3.1 to 5.1, Megatron Bridge 26.02 and 26.04; those in fp4 also from MLPerf's Llama 3.1 8B). Predictions of
// those runs are therefore not independent of them. H100's factor for bf16 was fitted to Llama 3.1 8B and 70B
// in NVIDIA's DGX Cloud recipes 25.01 to 25.04. Either model alone gives 1.20 and 1.26, and predicts the
// other within 4.4 %. H200 has the same chip.
//
// nvidia-smi prints the memory in MiB that the driver gives to programs. The driver reserves the rest:
//
//           memory      nvidia-smi   reserved by the driver
//   A100     80 GiB      81920        0
//   H100     80 GiB      81559        361
//   H200    141 GiB     143771        613
//   B200    180 GiB     183359        961
//   GB200   185 GiB     189471        0, because the memory is already the driver's figure; also B300, GB300
//
// Seven devices have no kernel tables of their own. They take the shares of the peaks that the kernels of
// another device reach (`kernels`), and notes say so. Their figures come from these sources:
//
//   A800      NVIDIA's A800 data sheet: an A100 with NVLink of 400 GB/s in both directions together
//   H800      NVIDIA's H800 data sheet: an H100 with NVLink of 400 GB/s in both directions together
//   H20       reports of NVIDIA's data sheet for server makers (SemiAnalysis, 2023): 148 TFLOP/s in bf16,
//             296 in fp8, 96 GB, 4.0 TB/s, NVLink of 900 GB/s, 78 multiprocessors
//   L40S      NVIDIA's L40S data sheet: 362.05 TFLOP/s in bf16, 733 in fp8, 48 GB, 864 GB/s, no NVLink, PCIe
//             4 with 16 lanes (64 GB/s in both directions together), 142 multiprocessors (568 tensor cores)
//   MI300X    AMD's MI300X data sheet: 1307.4 TFLOP/s in bf16, 2614.9 in fp8, 192 GB, 5.3 TB/s, 304 compute
//             units, seven Infinity Fabric links of 128 GB/s in both directions together
//   MI325X    AMD's MI325X data sheet: as MI300X, with 256 GB and 6.0 TB/s
//   TPU v5p   Google Cloud's documentation of TPU v5p: 459 TFLOP/s in bf16, 95 GiB, 2765 GB/s, interconnect
//             of 1200 GB/s in both directions together, network of 50 Gb/s a chip, 4 chips a host, pods of
//             8960 chips
//
// Three values of these seven are assumptions. The network card has 400 Gb/s, or 200 Gb/s for A800 and L40S;
// the figure of TPU v5p is Google's. The driver reserves no more memory than on the device with the same
// chip. Only H800 has a sustained factor, because it has the chip of H100. A TPU's torus counts as one
// domain.
//
// Tested by preset_test.cpp.

#include "topology/presets.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

std::int64_t gibibytes(double amount) {
  return static_cast<std::int64_t>(std::llround(amount * static_cast<double>(std::int64_t{1} << 30)));
}

/// Returns the bytes of a device's memory that plans must not use. `driver_mebibytes` is the memory, in
/// MiB, that the driver gives to programs.
std::int64_t reserve(std::int64_t memory_bytes, std::int64_t driver_mebibytes) {
  const std::int64_t kept_by_driver = memory_bytes - (driver_mebibytes << 20);
  return std::max<std::int64_t>(0, kept_by_driver) + kReservedBesideAllocator;
}

DeviceType a100() {
  return {.name = "a100-sxm",
          .kernels = "A100",
          .bf16_flops_per_second = 312 * kTera,
          .memory_bytes_per_second = 2.039 * kTera,
          .nvlink_bytes_per_second = 300 * kGiga,
          .network_bytes_per_second = 25 * kGiga,
          .multiprocessors = 108,
          .memory_bytes = gibibytes(80),
          .reserved_bytes = reserve(gibibytes(80), 81920)};
}

DeviceType h100() {
  return {.name = "h100-sxm",
          .kernels = "H100",
          .bf16_flops_per_second = 989.4 * kTera,
          .fp8_flops_per_second = 1978.9 * kTera,
          .memory_bytes_per_second = 3.35 * kTera,
          .nvlink_bytes_per_second = 450 * kGiga,
          .network_bytes_per_second = 50 * kGiga,
          .multiprocessors = 132,
          .memory_bytes = gibibytes(80),
          .reserved_bytes = reserve(gibibytes(80), 81559),
          .sustained = 1.25,
          .sustained_fp8 = 1.35};
}

/// Returns the H200, which is an H100 with more and faster memory.
DeviceType h200() {
  DeviceType device = h100();
  device.name = "h200-sxm";
  device.kernels = "H200";
  device.memory_bytes_per_second = 4.8 * kTera;
  device.memory_bytes = gibibytes(141);
  device.reserved_bytes = reserve(device.memory_bytes, 143771);
  device.sustained_fp8 = 1.26;
  return device;
}

DeviceType b200() {
  return {.name = "b200-sxm",
          .kernels = "B200",
          .bf16_flops_per_second = 2250 * kTera,
          .fp8_flops_per_second = 4500 * kTera,
          .fp4_flops_per_second = 9000 * kTera,
          .memory_bytes_per_second = 8.0 * kTera,
          .nvlink_bytes_per_second = 900 * kGiga,
          .network_bytes_per_second = 50 * kGiga,
          .multiprocessors = 148,
          .memory_bytes = gibibytes(180),
          .reserved_bytes = reserve(gibibytes(180), 183359),
          .sustained = 1.38,
          .sustained_fp8 = 1.38,
          .sustained_fp4 = 1.38};
}

/// Returns the GB200. One NVLink domain has 72 of these devices, and a node has four.
DeviceType gb200() {
  DeviceType device = b200();
  device.name = "gb200";
  device.kernels = "GB200";
  device.bf16_flops_per_second = 2500 * kTera;
  device.fp8_flops_per_second = 5000 * kTera;
  device.fp4_flops_per_second = 10000 * kTera;
  device.nvlink_devices = 72;
  device.devices_per_node = 4;
  device.multiprocessors = 152;
  device.memory_bytes = gibibytes(185);
  device.reserved_bytes = reserve(device.memory_bytes, 189471);
  device.sustained = 1.25;
  device.sustained_fp8 = 1.25;
  device.sustained_fp4 = 1.15;
  return device;
}

DeviceType gb300() {
  DeviceType device = gb200();
  device.name = "gb300";
  device.kernels = "GB300";
  device.fp4_flops_per_second = 15000 * kTera;
  device.network_bytes_per_second = 100 * kGiga;
  device.multiprocessors = 160;
  device.memory_bytes = gibibytes(277.5);
  device.reserved_bytes = reserve(device.memory_bytes, 284208);
  device.sustained = 1.2;
  device.sustained_fp8 = 1.2;
  device.sustained_fp4 = 1.05;
  return device;
}

/// Returns the B300, which has the chip of the GB300. As with B200, a node has eight of them.
DeviceType b300() {
  DeviceType device = gb300();
  device.name = "b300";
  device.nvlink_devices = 8;
  device.devices_per_node = 8;
  device.memory_bytes = gibibytes(268.6);
  device.reserved_bytes = reserve(device.memory_bytes, 275040);
  return device;
}

DeviceType a800() {
  DeviceType device = a100();
  device.name = "a800";
  device.nvlink_bytes_per_second = 200 * kGiga;
  device.has_own_kernels = false;
  return device;
}

DeviceType h800() {
  DeviceType device = h100();
  device.name = "h800";
  device.nvlink_bytes_per_second = 200 * kGiga;
  device.has_own_kernels = false;
  return device;
}

/// Returns a device for which no kernel tables exist. Its kernels are assumed to reach the same shares of
/// its peak rates as those of H100.
DeviceType like_h100(std::string name) {
  DeviceType device;
  device.name = std::move(name);
  device.kernels = "H100";
  device.network_bytes_per_second = 50 * kGiga;
  device.has_own_kernels = false;
  return device;
}

DeviceType h20() {
  DeviceType device = like_h100("h20");
  device.bf16_flops_per_second = 148 * kTera;
  device.fp8_flops_per_second = 296 * kTera;
  device.memory_bytes_per_second = 4.0 * kTera;
  device.nvlink_bytes_per_second = 450 * kGiga;
  device.multiprocessors = 78;
  device.memory_bytes = gibibytes(96);
  device.reserved_bytes = kReservedBesideAllocator;
  return device;
}

/// Returns the L40S. Its devices have no NVLink. The devices of a node, which elsewhere form an NVLink
/// domain, are connected by PCIe.
DeviceType l40s() {
  DeviceType device = like_h100("l40s");
  device.bf16_flops_per_second = 362.05 * kTera;
  device.fp8_flops_per_second = 733 * kTera;
  device.memory_bytes_per_second = 0.864 * kTera;
  device.nvlink_bytes_per_second = 32 * kGiga;
  device.network_bytes_per_second = 25 * kGiga;
  device.multiprocessors = 142;
  device.memory_bytes = gibibytes(48);
  device.reserved_bytes = kReservedBesideAllocator;
  return device;
}

DeviceType mi300x() {
  DeviceType device = like_h100("mi300x");
  device.bf16_flops_per_second = 1307.4 * kTera;
  device.fp8_flops_per_second = 2614.9 * kTera;
  device.memory_bytes_per_second = 5.3 * kTera;
  device.nvlink_bytes_per_second = 7 * 64 * kGiga;
  device.multiprocessors = 304;
  device.memory_bytes = gibibytes(192);
  device.reserved_bytes = kReservedBesideAllocator;
  return device;
}

DeviceType mi325x() {
  DeviceType device = mi300x();
  device.name = "mi325x";
  device.memory_bytes_per_second = 6.0 * kTera;
  device.memory_bytes = gibibytes(256);
  return device;
}

DeviceType tpu_v5p() {
  DeviceType device = like_h100("tpu-v5p");
  device.kernels = "A100";  // like A100, it has no rate of its own in 8 bits
  device.bf16_flops_per_second = 459 * kTera;
  device.memory_bytes_per_second = 2.765 * kTera;
  device.nvlink_bytes_per_second = 600 * kGiga;
  device.network_bytes_per_second = 6.25 * kGiga;
  device.nvlink_devices = 8960;
  device.devices_per_node = 4;
  device.multiprocessors = 2;
  device.memory_bytes = gibibytes(95);
  device.reserved_bytes = kReservedBesideAllocator;
  return device;
}

/// Returns a device name in the form in which names are compared: in lower case, without '-' and '_', and
/// without "sxm" at its end.
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != '-' && c != '_') text.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  if (text.ends_with("sxm")) text.resize(text.size() - 3);
  return text;
}

}  // namespace

std::span<const DeviceType> device_types() {
  // A device with kernel tables of its own comes before the devices that use its tables.
  static const std::array<DeviceType, 14> types = {a100(), h100(),   h200(),   b200(),   gb200(),
                                                   b300(), gb300(),  a800(),   h800(),   h20(),
                                                   l40s(), mi300x(), mi325x(), tpu_v5p()};
  return types;
}

std::string device_type_names() {
  std::string names;
  for (const DeviceType& type : device_types()) {
    if (!names.empty()) names.append(", ");
    names.append(type.name);
  }
  return names;
}

const DeviceType* find_device_type(std::string_view name) {
  // "H100", "h100_sxm" and "H100-SXM" are the same device.
  const std::span<const DeviceType> types = device_types();
  const auto found =
      std::ranges::find(types, plain(name), [](const DeviceType& type) { return plain(type.name); });
  return found == types.end() ? nullptr : &*found;
}

}  // namespace penstock
