// Prices ZeRO (Rajbhandari et al., SC'20, sections 5 and 7) for n copies of a weight:
//
//   sharding            0            1                 2                      3
//   a copy holds        all          1/n of the        also 1/n of the        also 1/n of the
//                                    optimizer state   gradients              weights
//   a microbatch                                       scatters gradients     gathers weights twice,
//                                                                             scatters gradients
//   a step              all-reduces  scatters          gathers weights        nothing
//                       gradients    gradients,
//                                    gathers weights
//
// Gradients that are held in parts cannot wait completely for the last microbatch. They are scattered in each
// microbatch and not again in the step (PyTorch's FSDP if every backward pass synchronizes gradients,
// DeepSpeed's stage 2). A layer's weights are gathered while the layer before it runs, and its gradients are
// scattered while the next layer of the backward pass runs. The rest is exposed. If layers are equal, each
// hides the exchange of another:
//
//   forward    max(0, gather - F)
//   backward   max(0, gather - I)  +  max(0, scatter - what is left of I and W)
//
// With `parallel.gather: step` weights are gathered once a step, and gradients are whole until the last
// microbatch, as in PyTorch's FSDP inside a pipeline (reshard_after_forward off). Sharding 2 and 3 then hold
// and exchange what sharding 1 does. The optimizer's state is divided in all three. Tested by
// weight_copies_test.cpp.

#include "scenarios/pricing/weight_copies.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {
namespace {

constexpr std::string_view kWeightsGathered = "weights gathered";
constexpr std::string_view kGradientsScattered = "gradients scattered";

/// Returns the parameters that have copies.
DeviceParameters shared_parameters(const Parallel& parallel, const DeviceParameters& held) {
  return {.dense = parallel.weight_copies() > 1 ? held.dense : 0,
          .expert = parallel.expert_copies() > 1 ? held.expert : 0};
}

}  // namespace

double gathered_bytes(const Workload& work) { return work.precision == GemmPrecision::bf16 ? 2 : 1; }

DeviceParameters held_from(const Parallel& parallel, std::int32_t sharding, const DeviceParameters& held) {
  if (parallel.sharding_between_steps() < sharding) return held;
  return {.dense = held.dense / parallel.weight_copies(), .expert = held.expert / parallel.expert_copies()};
}

void add_copies_terms(std::vector<Term>& terms, const Workload& work, const KernelTables& kernels,
                      const DeviceParameters& parameters) {
  const Parallel& parallel = work.parallel;
  // Experts may have copies even if other weights have none, in a tensor group that is larger than theirs.
  const bool has_copies = parallel.weight_copies() > 1 || parallel.expert_copies() > 1;
  if (parallel.sharding_between_steps() < 2 || !has_copies) return;
  const Term beside = total_of(terms);
  const auto exposed = [&](double seconds, double hidden) {
    return parallel.data_overlap ? std::max(0.0, seconds - hidden) : seconds;
  };
  double gather_s = 0;
  if (parallel.sharding == 3) {
    gather_s = copies_seconds(work, kernels, GroupOperation::all_gather, parameters, gathered_bytes(work));
    terms.push_back({.name = std::string(kWeightsGathered),
                     .kind = TermKind::collective,
                     .forward = exposed(gather_s, beside.forward),
                     .backward_input = exposed(gather_s, beside.backward_input)});
  }
  const double scatter_s =
      copies_seconds(work, kernels, GroupOperation::reduce_scatter, parameters, work.gradient_bytes);
  // The gather has already used its part of I, and the link does one thing at a time.
  const double left_s = beside.backward_weight + std::max(0.0, beside.backward_input - gather_s);
  terms.push_back({.name = std::string(kGradientsScattered),
                   .kind = TermKind::collective,
                   .backward_weight = exposed(scatter_s, left_s)});
}

ShownCollectives shown_collectives(const std::vector<Term>& terms) {
  ShownCollectives shown;
  for (const Term& term : terms) {
    if (term.name == kWeightsGathered) {
      shown.gathered_s += term.forward;
      shown.gathered_again_s += term.backward_input;
    }
    if (term.name == kGradientsScattered) shown.scattered_s += term.backward_weight;
  }
  return shown;
}

double whole_layer_bytes(const Workload& work, const DeviceParameters& parameters) {
  if (work.parallel.sharding_between_steps() < 2) return 0;
  const double gradients = work.gradient_bytes * shared_parameters(work.parallel, parameters).total();
  return gradients + whole_weight_bytes(work, parameters);
}

double whole_weight_bytes(const Workload& work, const DeviceParameters& parameters) {
  if (work.parallel.sharding_between_steps() < 3) return 0;
  return weight_bytes(work) * shared_parameters(work.parallel, parameters).total();
}

}  // namespace penstock
