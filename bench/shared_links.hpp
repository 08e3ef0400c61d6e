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

/// Returns 1F1B pipelines that run at the same time. Server k has stage k of all pipelines, with one device
/// for each pipeline. Between two servers there is one full-duplex link of 50 GiB/s with a latency of 4 us. A
/// forward takes 0.95 to 1.05 ms, which differs between stages and pipelines, and a backward takes twice as
/// long. The pipelines share only the links.
Experiment pipelines_on_shared_links(const SharedPipelines& shape);

}  // namespace penstock
