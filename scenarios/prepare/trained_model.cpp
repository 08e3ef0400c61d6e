// Computes the figures for the model FLOP utilization (Chowdhery et al., PaLM, appendix B). They count the
// model's own operations once, and all devices of the copies.

#include "scenarios/prepare/trained_model.hpp"

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

TrainedModel trained_by(const Workload& work) {
  return {.parameters = parameters(work.model),
          .active_parameters = active_parameters(work.model),
          .flops_per_sample = flops_per_sample(work.model, work.sequence),
          .tokens_per_sample = work.sequence,
          .devices = device_count(work.parallel, work.ranks),
          .copies = work.parallel.data,
          .peak_flops_per_second = peak_flops(work.device, work.precision)};
}

}  // namespace penstock
