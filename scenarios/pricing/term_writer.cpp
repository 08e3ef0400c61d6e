// A product Y = X W is followed by two backward: dX = dY W^T (the input's gradient) and dW = X^T dY, which is
// added to the sum over microbatches in the product's own last step: reading and writing that sum costs 0.4
// of its bytes, as the rest hides behind the product. 8 and 4 bit values are cast by kernels that run half
// beside others forward, and write two copies backward.
//
// A machine's own table has the three products as training runs them, additions and all: no factor then.
// Neither a table nor a factor makes a product faster than the device's peak.

#include "scenarios/pricing/term_writer.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "scenarios/pricing/gemm_model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/product_table.hpp"
#include "scenarios/pricing/workload.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

/// Without a table and a model.
constexpr double kPlainEfficiency = 0.70;
/// Bytes an element of a product's input that is cast forward: read in 2, written twice in 1, half of it
/// hidden.
constexpr double kForwardCastBytes = 4 * 0.5;
/// Bytes an element of its output's gradient: read in 2, written in 1 as it is and in 1 transposed, none of
/// it hidden.
constexpr double kBackwardCastBytes = 4;
/// What of the accumulation's reads and writes does not hide behind the product.
constexpr double kAccumulatePart = 0.4;

}  // namespace

double TermWriter::memory_seconds(double bytes) const {
  return bytes / (work_.device.memory_efficiency * work_.device.memory_bytes_per_second);
}

double TermWriter::burst_seconds(GemmPrecision precision, const GemmShape& shape) const {
  const DeviceRates rates = rates_of(work_.device, precision);
  const auto measured = kernels_.gemm_seconds(precision, shape, rates);
  return measured.value_or(shape.flops() / (kPlainEfficiency * rates.flops_per_second));
}

double TermWriter::peak_seconds(GemmPrecision precision, double operations) const {
  return operations / peak_flops(work_.device, precision);
}

void TermWriter::gemm(std::string_view name, const GemmShape& shape, GemmPrecision precision) {
  if (shape.flops() <= 0) return;
  if (precision == GemmPrecision::bf16) {
    if (auto own = own_products(name, 1, shape)) {
      add(*std::move(own));
      return;
    }
  }
  const auto [m, n, k] = shape;
  // The factor is the run's, also of a product in another precision: it is power that slows them all.
  const auto seconds = [&](Product product) {
    return std::max(sustained_factor(work_) * burst_seconds(precision, shape_of(product, shape)),
                    peak_seconds(precision, shape.flops()));
  };
  add({.name = std::string(name),
       .kind = TermKind::gemm,
       .forward = seconds(Product::forward),
       .backward_input = seconds(Product::input_gradient),
       .backward_weight = seconds(Product::weight_gradient)});
  if (precision != GemmPrecision::bf16) {
    add({.name = fmt::format("{} cast", name),
         .kind = TermKind::cast,
         .forward = memory_seconds(m * k * kForwardCastBytes),
         .backward_input = memory_seconds(m * n * kBackwardCastBytes)});
  }
  accumulate(name, n * k);
}

std::optional<Term> TermWriter::own_products(std::string_view name, double groups,
                                             const GemmShape& forward) const {
  const auto seconds = [&](Product product) {
    return kernels_.products().seconds(product, groups, shape_of(product, forward));
  };
  const auto output = seconds(Product::forward);
  const auto input = seconds(Product::input_gradient);
  const auto weight = seconds(Product::weight_gradient);
  // All three or none, so that a product's passes are measured in one way.
  if (!output || !input || !weight) return std::nullopt;
  const double least_s = peak_seconds(GemmPrecision::bf16, groups * forward.flops());
  return Term{.name = std::string(name),
              .kind = TermKind::gemm,
              .forward = std::max(*output, least_s),
              .backward_input = std::max(*input, least_s),
              .backward_weight = std::max(*weight, least_s)};
}

void TermWriter::accumulate(std::string_view name, double parameters) {
  add({.name = fmt::format("{} accumulation", name),
       .kind = TermKind::accumulate,
       .backward_weight = memory_seconds(kAccumulatePart * 2 * work_.gradient_bytes * parameters)});
}

void TermWriter::memory(std::string_view name, double forward_bytes, double backward_bytes, int kernels) {
  const double launch_s = kernels * static_cast<double>(work_.device.launch_ns) * kSecondsPerNanosecond;
  add({.name = std::string(name),
       .kind = TermKind::memory,
       .forward = memory_seconds(forward_bytes) + launch_s,
       .backward_input = memory_seconds(backward_bytes) + launch_s});
}

void TermWriter::collective(std::string_view name, double forward_seconds, double backward_seconds) {
  if (forward_seconds <= 0 && backward_seconds <= 0) return;
  add({.name = std::string(name),
       .kind = TermKind::collective,
       .forward = forward_seconds,
       .backward_input = backward_seconds});
}

}  // namespace penstock
