#pragma once
// Pipelines that share the links of servers: what contention/* measures.

#include <cstdint>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct SharedPipelines {
  std::int32_t pipelines = 1;
  std::int32_t stages = 2;
  std::int32_t microbatches = 1;
  Bytes message_bytes = 0;  ///< of each activation and gradient
};

/// 1F1B pipelines side by side: server k holds stage k of all of them, a device each, and has one full-duplex
/// link of 50 GiB/s with a latency of 4 us between two servers. Forward takes 0.95 to 1.05 ms and backward
/// twice that, every stage of every pipeline its own time. Nothing else joins the pipelines.
Experiment pipelines_on_shared_links(const SharedPipelines& shape);

}  // namespace penstock
