// A ring moves (n-1)/n of the tensor over each link, twice for an all-reduce; an all-to-all keeps 1/n at
// home.

#include "scenarios/pricing/workload.hpp"

#include <cstdint>
#include <string_view>

#include "scenarios/pricing/gemm_model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "topology/device_types.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
std::string_view to_text(LayerRecompute recompute) {
  switch (recompute) {
    case LayerRecompute::none:
      return "none";
    case LayerRecompute::selective:
      return "selective";
    case LayerRecompute::norm:
      return "norm";
    case LayerRecompute::activation:
      return "activation";
    case LayerRecompute::mlp:
      return "mlp";
    case LayerRecompute::full:
      return "full";
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

double sustained_factor(const Workload& work) {
  return work.precision == GemmPrecision::fp4 ? work.device.sustained_fp4 : work.device.sustained;
}

double ring_seconds(GroupOperation operation, std::int64_t devices, double bytes, double bytes_per_second) {
  const auto n = static_cast<double>(devices);
  const double passes = operation == GroupOperation::all_reduce ? 2 : 1;
  return passes * (n - 1) / n * bytes / bytes_per_second;
}

double link_bytes_per_second(const Workload& work, DeviceGroup group) {
  const DeviceType& device = work.device;
  return is_on_nvlink(work.parallel, work.ranks, group, device)
             ? device.nvlink_bytes_per_second * device.nvlink_efficiency
             : device.network_bytes_per_second * device.network_efficiency;
}

double group_seconds(const Workload& work, const KernelTables& kernels, DeviceGroup group,
                     GroupOperation operation, double bytes) {
  const std::int64_t size = group_size(work.parallel, work.ranks, group);
  if (size <= 1 || bytes <= 0) return 0;
  if (is_on_nvlink(work.parallel, work.ranks, group, work.device)) {
    const auto measured = kernels.collective_seconds(operation, static_cast<std::int32_t>(size), bytes);
    if (measured) return *measured;
  }
  return ring_seconds(operation, size, bytes, link_bytes_per_second(work, group)) +
         static_cast<double>(work.device.link_latency_ns) * kSecondsPerNanosecond;
}

}  // namespace penstock
