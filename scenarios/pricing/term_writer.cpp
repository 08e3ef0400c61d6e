// Computes the times of products and other kernels. A product Y = X W has two products in the backward pass:
// dX = dY W^T (the input's gradient) and dW = X^T dY. The last step of dW adds it to the sum over
// microbatches. The product hides most of the sum's reads and writes, and 0.4 of them remain. Kernels cast
// values to 8 and 4 bits. In the forward pass half of their time is hidden. In the backward pass they write
// two copies.
//
// The machine's own table has the three products as training runs them, including additions, so no factor
// applies. No product becomes faster than the device's peak. Tested by pricing_test.cpp.

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

/// The share of the peak that a product reaches if there is neither a table nor a model.
constexpr double kPlainEfficiency = 0.70;
/// The bytes to cast one element of a product's input in the forward pass: 2 are read and 1 is written twice.
/// Half of the time is hidden.
constexpr double kForwardCastBytes = 4 * 0.5;
/// The bytes to cast one element of the output's gradient: 2 are read, 1 is written directly and 1
/// transposed. No time is hidden.
constexpr double kBackwardCastBytes = 4;
/// The share of the accumulation's reads and writes that the product does not hide.
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
  // The factor belongs to the whole run, because the power limit slows products of every precision.
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
  // The table must have all three products, so that the three times come from one kind of measurement.
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
