#pragma once
// What work and copies take on the workers of one GPU, measured apart from the programs that are to be
// predicted.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "backend/calibration/line_fit.hpp"
#include "backend/cuda/workers.hpp"
#include "bench/gpu/workloads.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Of one stated duration on all workers.
struct WorkTimes {
  Spread alone;  ///< on worker 0, the others idle
  Spread busy;   ///< on worker 0, the others at the same work
};

/// What a unit of work takes when all workers are busy.
Ns unit_of(GpuWorkload workload, const std::vector<std::unique_ptr<WorkClock>>& clocks);

/// 5 warm-ups and 30 samples for each duration, alone and busy.
std::map<Ns, WorkTimes> measure_work(const std::vector<std::unique_ptr<WorkClock>>& clocks,
                                     const std::set<Ns>& durations);

/// Latency and bandwidth of a copy from one worker to another, by sizes from 0 to 64 MiB: what the receiver
/// sees from the moment when the copy is given to the stream.
struct CopyTimes {
  Ns latency_ns = 0;
  double bytes_per_second = 0;
};
CopyTimes measure_copies(const CudaWorkers& workers);

}  // namespace penstock
