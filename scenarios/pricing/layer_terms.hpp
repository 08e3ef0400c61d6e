#pragma once
// Computes the time of one layer, or of the head, on one device of a rank. The time is a sum of terms. The
// time of a stage is the sum of the times of its layers and its head.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The resource or activity that determines the time of a term.
enum class TermKind : std::uint8_t {
  gemm,        // a matrix product, at the device's sustained rate
  attention,   // scores, softmax and the sum over the values in one fused kernel
  memory,      // kernels limited by memory: norms, activations, rotary positions, the router
  cast,        // conversion to values of 8 or 4 bits
  accumulate,  // the addition of weight gradients to their sum
  // Transfers in tensor, context and expert groups, without the part that overlaps with computation.
  collective,
  host,  // additional time for the host
};
template <>
inline constexpr auto kEnumWords<TermKind> =
    std::to_array<EnumWord<TermKind>>({{TermKind::gemm, "gemm"},
                                       {TermKind::attention, "attention"},
                                       {TermKind::memory, "memory"},
                                       {TermKind::cast, "cast"},
                                       {TermKind::accumulate, "accumulate"},
                                       {TermKind::collective, "collective"},
                                       {TermKind::host, "host"}});

/// The parts of a layer with experts, in the order of its forward pass. A layer without experts has only
/// the first part.
enum class LayerPart : std::uint8_t {
  attention,  // everything before the tokens leave for their experts, and the shared expert
  dispatch,   // the exchange that sends tokens to their experts
  experts,
  combine,  // the exchange that sends the results back
};
inline constexpr std::size_t kLayerPartCount = 4;

/// The seconds of one term of a layer's time, for one microbatch. The backward pass has two parts, as in
/// schedules that split it: B = input + weight.
struct Term {
  std::string name;
  TermKind kind = TermKind::gemm;
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  LayerPart part = LayerPart::attention;
  /// The seconds of an exchange that overlap with computation of the backward pass. No other field contains
  /// them.
  double hidden_backward = 0;
  double backward() const { return backward_input + backward_weight; }
};

/// Returns the terms of one layer of the given kind.
std::vector<Term> layer_terms(const Workload& given, const KernelTables& kernels, const LayerKind& kind);
/// Returns the terms of the embedding, which are only the communication among copies of its weights
/// (collectives.hpp).
std::vector<Term> embedding_terms(const Workload& work, const KernelTables& kernels);
/// Returns the terms of the head: its product and the loss.
std::vector<Term> head_terms(const Workload& work, const KernelTables& kernels);
/// Returns the terms of one multi-token-prediction layer with its projection, but without its head.
std::vector<Term> prediction_terms(const Workload& work, const KernelTables& kernels);
/// Returns the terms of one multi-token-prediction layer with its projection and its head.
std::vector<Term> multi_token_terms(const Workload& work, const KernelTables& kernels);

/// Returns one term whose times are the sums over all terms.
Term total_of(const std::vector<Term>& terms);

// Collects the terms of a layer. Each function computes the cost of one kind of kernel. Used by
// layer_terms.cpp and feed_forward_terms.cpp.

/// A collector of one layer's terms on a device.
class TermWriter {
 public:
  TermWriter(const Workload& work, const KernelTables& kernels) : work_(work), kernels_(kernels) {}

  /// Adds the product Y[m, n] = X[m, k] W[k, n], its two products in the backward pass, the casts, and the
  /// accumulation of the weight gradient.
  void gemm(std::string_view name, const GemmShape& shape) { gemm(name, shape, work_.precision); }
  void gemm(std::string_view name, const GemmShape& shape, GemmPrecision precision);
  /// Adds `groups` matrix products that run at the same time, with their casts. The forward product of each
  /// has the shape `forward`. No accumulation is added, because the kernel of a weight gradient adds it to
  /// its sum.
  void grouped(std::string_view name, double groups, const GemmShape& forward);
  /// Adds the time of adding a weight gradient with `parameters` values to its sum.
  void accumulate(std::string_view name, double parameters);
  /// Adds the time of memory-bound kernels. Each pass has `kernels` kernels, which together move
  /// `forward_bytes` or `backward_bytes`.
  void memory(std::string_view name, double forward_bytes, double backward_bytes, int kernels);
  /// Adds a collective. The arguments are the seconds that the device waits for the collective in the forward
  /// and in the backward pass.
  void collective(std::string_view name, double forward_seconds, double backward_seconds);
  /// Adds a term to the current part of the layer.
  void add(Term term) {
    term.part = part_;
    terms_.push_back(std::move(term));
  }
  /// Sets the part of the layer to which the next terms belong.
  void begin(LayerPart part) { part_ = part; }

  /// Returns the term of `groups` simultaneous 16-bit products, from the table of products that the user
  /// measured. Returns nothing if the table lacks one of the three products.
  std::optional<Term> own_products(std::string_view name, double groups, const GemmShape& forward) const;

  /// Returns the seconds that elementwise kernels need to move these bytes.
  double memory_seconds(double bytes) const;
  /// Returns the seconds of a product at the device's sustained rate, and not above the device's peak.
  double product_seconds(GemmPrecision precision, const GemmShape& shape) const;
  /// Returns the seconds of these operations at the device's peak. No product is faster.
  double peak_seconds(GemmPrecision precision, double operations) const;

  const Workload& work() const { return work_; }
  const KernelTables& kernels() const { return kernels_; }
  std::vector<Term> take() { return std::move(terms_); }

 private:
  /// Adds the casts of a product's input and of the gradient of its output. Adds nothing if the precision
  /// has 16 bits.
  void cast(std::string_view name, double inputs, double outputs, GemmPrecision precision);
  double burst_seconds(GemmPrecision precision, const GemmShape& shape) const;

  const Workload& work_;
  const KernelTables& kernels_;
  LayerPart part_ = LayerPart::attention;
  std::vector<Term> terms_;
};

/// Adds the terms of a layer's feed-forward part, dense or with experts.
void add_feed_forward(TermWriter& terms, const LayerKind& kind);

// Computes the time of an overlapped pair: the forward pass of one microbatch beside the backward pass of
// another. The exchanges of experts in one pass run beside the computation of the other.

/// The seconds that each part of a layer takes in one pass, indexed by LayerPart.
using PartSeconds = std::array<double, kLayerPartCount>;

/// The seconds that each part of a layer takes in the forward and the backward pass.
struct LayerPasses {
  PartSeconds forward{};
  /// The part of the backward pass that computes the gradient of the input (action I).
  PartSeconds backward{};
  /// The part of the backward pass that computes the gradients of the weights (action W). No exchange waits
  /// for it.
  PartSeconds weight{};

  /// Returns true if a pass exchanges tokens with experts.
  bool exchanges() const;
};

/// Returns the times of a layer's parts, as sums over its terms.
LayerPasses passes_of(std::span<const Term> terms);

/// Returns the seconds of an overlapped pair: the forward and the backward pass of two microbatches over
/// the same layers. The result is at least the sum of all computation, and at least the sum of all
/// exchanges. It is at most the sum of both.
double pair_seconds(std::span<const LayerPasses> layers);

/// Returns the seconds by which an overlapped pair is shorter than its two passes one after the other.
double hidden_seconds(std::span<const LayerPasses> layers);

}  // namespace penstock
