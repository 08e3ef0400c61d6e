#pragma once
// What one layer, and the head, take on one device of a rank, term by term. The terms of a stage sum to its
// times.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// What a term's time depends on.
enum class TermKind : std::uint8_t {
  gemm,        // a matrix product, at the device's sustained rate
  attention,   // scores, softmax and sum over the values, fused
  memory,      // kernels that are bound by the memory: norms, activations, rotary positions, the router
  cast,        // to 8 or 4 bit values
  accumulate,  // weight gradients into their sum
  collective,  // of tensor, context and expert groups, as far as nothing hides it
  host,        // what the host needs beyond all of these
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

/// Seconds for one microbatch. Backward is split as schedules split it: B = input + weight.
struct Term {
  std::string name;
  TermKind kind = TermKind::gemm;
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double backward() const { return backward_input + backward_weight; }
};

/// The terms of a layer of the kind.
std::vector<Term> layer_terms(const Workload& work, const KernelTables& kernels, const LayerKind& kind);
/// The terms of the embedding: none but what its copies tell each other (weight_copies.hpp).
std::vector<Term> embedding_terms(const Workload& work, const KernelTables& kernels);
/// The terms of the head: its product and the loss.
std::vector<Term> head_terms(const Workload& work, const KernelTables& kernels);
/// The terms of one multi-token-prediction layer with its projection and its head.
std::vector<Term> multi_token_terms(const Workload& work, const KernelTables& kernels);

/// Sums of terms.
Term total_of(const std::vector<Term>& terms);

}  // namespace penstock
