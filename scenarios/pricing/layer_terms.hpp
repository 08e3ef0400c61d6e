#pragma once
// Computes the time of one layer and of the head on one device of a rank, as a sum of terms. The times of a
// stage are the sums of its terms.

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

/// The kind of work or transfer that determines the time of a term.
enum class TermKind : std::uint8_t {
  gemm,        // a matrix product, at the device's sustained rate
  attention,   // scores, softmax and the sum over the values in one fused kernel
  memory,      // kernels limited by memory: norms, activations, rotary positions, the router
  cast,        // conversion to values of 8 or 4 bits
  accumulate,  // the addition of weight gradients to their sum
  // Transfers in tensor, context and expert groups, without the part that other work hides.
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

/// The seconds of one term for one microbatch. The backward pass has two parts, as in schedules that split
/// it: B = input + weight.
struct Term {
  std::string name;
  TermKind kind = TermKind::gemm;
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double backward() const { return backward_input + backward_weight; }
};

/// Returns the terms of one layer of the given kind.
std::vector<Term> layer_terms(const Workload& work, const KernelTables& kernels, const LayerKind& kind);
/// Returns the terms of the embedding, which are only the communication among copies of its weights
/// (weight_copies.hpp).
std::vector<Term> embedding_terms(const Workload& work, const KernelTables& kernels);
/// Returns the terms of the head: its product and the loss.
std::vector<Term> head_terms(const Workload& work, const KernelTables& kernels);
/// Returns the terms of one multi-token-prediction layer with its projection and its head.
std::vector<Term> multi_token_terms(const Workload& work, const KernelTables& kernels);

/// Returns the sum of the terms.
Term total_of(const std::vector<Term>& terms);

}  // namespace penstock
