// Checks whether a workload can be divided as stated. Tensor parallelism divides attention heads and
// feed-forward columns, and with sequence parallelism also tokens. Context parallelism divides tokens or
// heads. A ring gives each device one part from either end, so that causal attention is even. Expert
// parallelism divides experts. Tested by pricing_test.cpp.

#include "scenarios/pricing/workload_faults.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {
namespace {

using Fault = std::optional<std::string>;

Fault undivided(std::string_view divisor_name, std::int64_t divisor, std::string_view what,
                std::int64_t number) {
  if (divisor > 0 && number % divisor == 0) return std::nullopt;
  return fmt::format("{}: expected a number that divides {}, {}, got {}", divisor_name, what, number,
                     divisor);
}

Fault model_fault(const Workload& work) {
  const Architecture& model = work.model;
  const Parallel& parallel = work.parallel;
  const std::int64_t t = parallel.tensor;
  const std::int64_t c = parallel.context;
  if (auto fault = undivided("parallel.tensor", t, "the attention heads", model.heads)) return fault;
  // All devices have equally many key heads, or equally many devices share each key head.
  if (t % std::min(t, model.kv_heads) != 0 || model.kv_heads % std::min(t, model.kv_heads) != 0) {
    return fmt::format("parallel.tensor: expected a divisor or a multiple of the key heads, {}, got {}",
                       model.kv_heads, t);
  }
  // Experts are not divided. A model in which all layers have experts need not state a width for dense
  // layers.
  const bool has_dense = !std::ranges::all_of(model.layers, &LayerKind::has_experts);
  if (has_dense) {
    if (auto fault = undivided("parallel.tensor", t, "the feed-forward width", model.feed_forward))
      return fault;
  }
  const bool is_ring = parallel.context_exchange == ContextExchange::ring;
  if (c > 1 && is_ring) {
    // Each device gets one part from either end of the sequence, so that all have equal work in causal
    // attention.
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

Fault precision_fault(const Workload& work) {
  const bool has = work.precision == GemmPrecision::bf16 ||
                   (work.precision == GemmPrecision::fp8 && work.device.fp8_flops_per_second > 0) ||
                   (work.precision == GemmPrecision::fp4 && work.device.fp4_flops_per_second > 0);
  if (has) return std::nullopt;
  return fmt::format(
      "training.precision: {} has no {} units; take bf16{}", work.device.name, to_text(work.precision),
      work.precision == GemmPrecision::fp4 && work.device.fp8_flops_per_second > 0 ? " or fp8" : "");
}

/// Returns an error message for a device that is slower with fewer bits. The head and attention always use 16
/// bits, so they would exceed the peak to which the run is compared.
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
  if (auto fault = precision_fault(work)) return fault;
  return peak_fault(work);
}

}  // namespace penstock
