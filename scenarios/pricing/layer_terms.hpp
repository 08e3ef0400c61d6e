#pragma once
// The time of one layer, and of the head, on one device of a rank, term by term. The terms of a stage sum to
// its times.

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

/// The kind of work or transfer on which the time of a term depends.
enum class TermKind : std::uint8_t {
  gemm,        // a matrix product, at the device's sustained rate
  attention,   // scores, softmax and sum over the values, fused
  memory,      // kernels that are bound by the memory: norms, activations, rotary positions, the router
  cast,        // to 8 or 4 bit values
  accumulate,  // weight gradients into their sum
  collective,  // of tensor, context and expert groups, as far as other work does not hide it
  host,        // additional time that the host needs
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

/// The seconds of one term for one microbatch. The backward is split as schedules split it: B = input +
/// weight.
struct Term {
  std::string name;
  TermKind kind = TermKind::gemm;
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double backward() const { return backward_input + backward_weight; }
};

/// Returns the terms of a layer of the kind.
std::vector<Term> layer_terms(const Workload& work, const KernelTables& kernels, const LayerKind& kind);
/// Returns the terms of the embedding, which are only the exchanges of its copies (weight_copies.hpp).
std::vector<Term> embedding_terms(const Workload& work, const KernelTables& kernels);
/// Returns the terms of the head: its product and the loss.
std::vector<Term> head_terms(const Workload& work, const KernelTables& kernels);
/// Returns the terms of one multi-token-prediction layer with its projection and its head.
std::vector<Term> multi_token_terms(const Workload& work, const KernelTables& kernels);

/// Returns the sum of terms.
Term total_of(const std::vector<Term>& terms);

}  // namespace penstock
