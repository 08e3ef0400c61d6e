#pragma once
// Collects the terms of a layer. Each function computes the cost of one kind of kernel. Used by
// layer_terms.cpp and feed_forward_terms.cpp.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// A collector of one layer's terms on a device.
class TermWriter {
 public:
  TermWriter(const Workload& work, const KernelTables& kernels) : work_(work), kernels_(kernels) {}

  /// Adds the product Y[m, n] = X[m, k] W[k, n] with its two products in the backward pass. It also adds the
  /// casts and the accumulation of the weight gradient.
  void gemm(std::string_view name, const GemmShape& shape) { gemm(name, shape, work_.precision); }
  void gemm(std::string_view name, const GemmShape& shape, GemmPrecision precision);
  /// Adds the accumulation of a weight gradient with `parameters` values.
  void accumulate(std::string_view name, double parameters);
  /// Adds memory-bound kernels: `kernels` in each direction, which together move the given bytes.
  void memory(std::string_view name, double forward_bytes, double backward_bytes, int kernels);
  /// Adds the exposed seconds of a collective in the forward and in the backward pass.
  void collective(std::string_view name, double forward_seconds, double backward_seconds);
  void add(Term term) { terms_.push_back(std::move(term)); }

  /// Returns the term of `groups` simultaneous 16-bit products from the machine's own table. Returns nothing
  /// if the table lacks one of the three products.
  std::optional<Term> own_products(std::string_view name, double groups, const GemmShape& forward) const;

  /// Returns the seconds that elementwise kernels need to move these bytes.
  double memory_seconds(double bytes) const;
  /// Returns the seconds of these operations at the device's peak. No product is faster.
  double peak_seconds(GemmPrecision precision, double operations) const;

  const Workload& work() const { return work_; }
  const KernelTables& kernels() const { return kernels_; }
  std::vector<Term> take() { return std::move(terms_); }

 private:
  double burst_seconds(GemmPrecision precision, const GemmShape& shape) const;

  const Workload& work_;
  const KernelTables& kernels_;
  std::vector<Term> terms_;
};

/// Adds the terms of a layer's feed-forward part, dense or with experts.
void add_feed_forward(TermWriter& terms, const LayerKind& kind);

}  // namespace penstock
