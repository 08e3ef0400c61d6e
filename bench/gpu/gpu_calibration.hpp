#pragma once
// Measures the costs of work and messages on the workers of one GPU, from device stamps of programs that are
// not predicted.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "bench/gpu/workloads.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A function that runs an experiment once on the caller's workers, with links as fast as the GPU copies.
/// Error: the run failed.
using RunOnWorkers = std::function<tl::expected<Timeline, std::string>(const Experiment&)>;

/// Returns the time of one unit of work while all workers are busy, by the host's clock. It decides only how
/// many units an action gets; measured_stages() measures their time.
Ns unit_of(GpuWorkload workload, const std::vector<std::unique_ptr<WorkClock>>& clocks);

/// Returns the mean times of the actions of each stage, each with the gap to the next action. They come from
/// 1F1B over the stages of `like` (calibration_program()), in which all workers are busy. Error: that of
/// `run`.
tl::expected<std::vector<StageCost>, std::string> measured_stages(GpuWorkload workload, const Program& like,
                                                                  const RunOnWorkers& run);

/// The times of one message of kNominalMessage bytes between two workers.
struct MessageTimes {
  Ns copy_alone_ns = 0;  ///< time from stamp to stamp on the link while nothing else runs
  Ns copy_busy_ns = 0;   ///< the same while all workers and links are busy
  Ns latency_ns = 0;     ///< time from the sender's end to the receiver's start, minus copy and launch
};

/// Returns means over the messages of naive (alone) and of 1F1B (busy) on this many workers. Requires workers
/// that hold their SMs for stated times (GpuWorkload::occupy). Error: that of `run`.
tl::expected<MessageTimes, std::string> measured_messages(std::int32_t workers, const RunOnWorkers& run);

/// Returns the experiment of the lowered program on a cluster whose links have this latency and bandwidth.
Experiment gpu_experiment_of(const Program& program, const CostTable& costs, Ns latency_ns,
                             double bytes_per_second);

}  // namespace penstock
