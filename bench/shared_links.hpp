#pragma once
// Pipelines that share the links of servers, for the benchmarks contention/*.

#include <cstdint>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct SharedPipelines {
  std::int32_t pipelines = 1;
  std::int32_t stages = 2;
  std::int32_t microbatches = 1;
  Bytes message_bytes = 0;  ///< bytes of each activation and gradient
};

/// Returns 1F1B pipelines that run at the same time. Server k holds stage k of all of them, one device each.
/// Between two servers there is one full-duplex link of 50 GiB/s with a latency of 4 us. Forward takes 0.95
/// to 1.05 ms and backward twice that, different for every stage of every pipeline. Only the links connect
/// the pipelines.
Experiment pipelines_on_shared_links(const SharedPipelines& shape);

}  // namespace penstock
