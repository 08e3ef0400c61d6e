#pragma once
// Collects a layer's terms. Each function knows the cost of one kind of kernel. Used by layer_terms.cpp and
// feed_forward_terms.cpp.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The writer of one layer's terms on a device.
class TermWriter {
 public:
  TermWriter(const Workload& work, const KernelTables& kernels) : work_(work), kernels_(kernels) {}

  /// Adds Y[m, n] = X[m, k] W[k, n] with its two products in the backward pass, its casts, and the
  /// accumulation of its weight gradient.
  void gemm(std::string_view name, const GemmShape& shape) { gemm(name, shape, work_.precision); }
  void gemm(std::string_view name, const GemmShape& shape, GemmPrecision precision);
  /// Adds the accumulation of the weight gradient of `parameters`.
  void accumulate(std::string_view name, double parameters);
  /// Adds `kernels` memory-bound kernels in each direction, which together move that many bytes.
  void memory(std::string_view name, double forward_bytes, double backward_bytes, int kernels);
  /// Adds the exposed seconds of a collective in each direction.
  void collective(std::string_view name, double forward_seconds, double backward_seconds);
  void add(Term term) { terms_.push_back(std::move(term)); }

  /// Returns `groups` products of 16 bits at once from the machine's own table, or nothing if it does not
  /// have all three.
  std::optional<Term> own_products(std::string_view name, double groups, const GemmShape& forward) const;

  /// Returns the seconds in which elementwise kernels move these bytes.
  double memory_seconds(double bytes) const;
  /// Returns the seconds of operations at the device's peak, which no product exceeds.
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
