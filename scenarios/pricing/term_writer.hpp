#pragma once
// Collects a layer's terms: each call knows what one kind of kernel costs. Used by layer_terms.cpp and
// feed_forward_terms.cpp.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// A device's terms for one layer.
class TermWriter {
 public:
  TermWriter(const Workload& work, const KernelTables& kernels) : work_(work), kernels_(kernels) {}

  /// Y[m, n] = X[m, k] W[k, n] with its two products backward, its casts and the accumulation of its weight
  /// gradient.
  void gemm(std::string_view name, const GemmShape& shape) { gemm(name, shape, work_.precision); }
  void gemm(std::string_view name, const GemmShape& shape, GemmPrecision precision);
  /// Adds the weight gradient of `parameters` into its sum.
  void accumulate(std::string_view name, double parameters);
  /// `kernels` memory-bound kernels each way that move so many bytes in all.
  void memory(std::string_view name, double forward_bytes, double backward_bytes, int kernels);
  /// A collective that is run so many times each way; part of it is hidden or all of it is exposed.
  void collective(std::string_view name, double forward_seconds, double backward_seconds);
  void add(Term term) { terms_.push_back(std::move(term)); }

  /// `groups` products of 16 bits at once as the machine's own table has them; nothing where it has not all
  /// three.
  std::optional<Term> own_products(std::string_view name, double groups, const GemmShape& forward) const;

  /// Bytes over what elementwise kernels reach.
  double memory_seconds(double bytes) const;
  /// Operations over the device's peak, which no product is faster than.
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

/// The feed-forward part of a layer, dense or of experts.
void add_feed_forward(TermWriter& terms, const LayerKind& kind);

}  // namespace penstock
