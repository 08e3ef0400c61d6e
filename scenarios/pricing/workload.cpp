
#include "scenarios/pricing/workload.hpp"

#include "scenarios/pricing/gemm_model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "topology/device_types.hpp"

namespace penstock {

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

}  // namespace penstock
