#pragma once
// The work of the workers of gpu_validation, and its measured costs. A worker's action is a fixed amount of
// work. Its time is measured by time stamps of the device, in programs that are not predicted.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/module_family.hpp"
#include "bench/gpu/validation_rows.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The work of one worker. The amount of work of an action takes about its stated time if all workers are
/// busy. The real time is measured.
class WorkClock : public Clock {
 public:
  /// `unit_ns` is the time of one unit of work. For occupy it is 1000.
  WorkClock(GpuWorkload workload, const CudaPlace& place, Ns unit_ns);
  ~WorkClock() override;

  Ns now_ns() const override { return host_.now_ns(); }
  /// Enqueues round(duration_ns / unit_ns) units on the worker's stream, at least one, and returns at once.
  /// All calls must come from one thread.
  void hold_for(Ns duration_ns, const std::stop_token& stop) const override;
  std::chrono::steady_clock::time_point moment_of(Ns time_ns) const override {
    return host_.moment_of(time_ns);
  }

  void set_unit(Ns unit_ns) { unit_ns_ = unit_ns; }
  /// Runs `units` units and waits for them. With occupy, each unit is a microsecond.
  void do_units(std::int64_t units) const;
  /// Like hold_for(), but waits for the units.
  void work_for(Ns duration_ns) const { do_units(units_of(duration_ns)); }

 private:
  struct Blas;
  std::int64_t units_of(Ns duration_ns) const;
  void launch_units(std::int64_t units) const;
  void launch_unit() const;

  GpuWorkload workload_;
  CudaPlace place_;
  SteadyClock host_{1};
  Ns unit_ns_;
  std::unique_ptr<Blas> blas_;
  DeviceBuffer a_, b_, c_;
};

/// A family of modules that call hold_for() of their rank's clock for every action.
class WorkFamily : public ModuleFamily {
 public:
  /// `nominal` has the approximate times of actions, and `clocks` has the clock of each rank. Both must
  /// outlive the family.
  WorkFamily(const Experiment& nominal, const std::vector<std::unique_ptr<WorkClock>>& clocks)
      : nominal_(nominal), clocks_(clocks) {}

  std::string description() const override { return "work of a fixed amount"; }
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;

 private:
  const Experiment& nominal_;
  const std::vector<std::unique_ptr<WorkClock>>& clocks_;
};

// Measures the costs of work and messages on the workers of one GPU, from device stamps of programs that are
// not predicted.

/// A function that runs an experiment once on the caller's workers, with links as fast as the GPU copies.
/// Returns an error if the run failed.
using RunOnWorkers = std::function<tl::expected<Timeline, std::string>(const Experiment&)>;

/// Returns the time of one unit of work while all workers are busy, measured by the host's clock. It is used
/// only to compute the number of units of an action. measured_stages() measures the time of actions.
Ns unit_of(GpuWorkload workload, const std::vector<std::unique_ptr<WorkClock>>& clocks);

/// Returns the mean times of the actions of each stage, each with the gap to the next action. They are
/// measured in 1F1B over the stages of `like` (calibration_program()), in which all workers are busy. Errors:
/// the errors of `run`.
tl::expected<std::vector<StageCost>, std::string> measured_stages(GpuWorkload workload, const Program& like,
                                                                  const RunOnWorkers& run);

/// The times of one message of kNominalMessage bytes between two workers.
struct MessageTimes {
  Ns copy_alone_ns = 0;  ///< time between the stamps on the link if no other work runs
  Ns copy_busy_ns = 0;   ///< like copy_alone_ns, but all workers and links are busy
  Ns latency_ns = 0;     ///< time from the sender's end to the receiver's start, minus copy and launch
};

/// Returns means over the messages of naive (alone) and of 1F1B (busy) on `workers` workers. Requires workers
/// with the workload GpuWorkload::occupy. Fails if `run` fails.
tl::expected<MessageTimes, std::string> measured_messages(std::int32_t workers, const RunOnWorkers& run);

/// Returns the experiment of a lowered program on a cluster with this latency and bandwidth of all links.
Experiment gpu_experiment_of(const Program& program, const CostTable& costs, Ns latency_ns,
                             double bytes_per_second);

}  // namespace penstock
