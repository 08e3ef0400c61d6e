#pragma once
// Occupy modules on GPUs: each action is a kernel that runs for the stated time in its worker's partition.

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/occupy_module.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A clock that holds the worker's stream with a kernel instead of making the thread sleep.
class PartitionClock : public Clock {
 public:
  PartitionClock(double scale, const CudaPlace& place) : host_(scale), scale_(scale), place_(place) {}

  Ns now_ns() const override { return host_.now_ns(); }
  /// Delays everything that is enqueued on the stream later. Returns at once. All calls must come from one
  /// thread.
  void hold_for(Ns duration_ns, const std::stop_token& stop) const override;
  std::chrono::steady_clock::time_point moment_of(Ns time_ns) const override {
    return host_.moment_of(time_ns);
  }

 private:
  SteadyClock host_;
  double scale_;
  CudaPlace place_;
};

class CudaOccupyFamily : public ModuleFamily {
 public:
  /// `places` are by rank. `experiment` and the streams of the places must outlive this object.
  CudaOccupyFamily(const Experiment& experiment, const Jitter& jitter, double time_scale,
                   const std::vector<std::optional<CudaPlace>>& places);

  std::string description() const override;
  /// Returns modules that hold the device's time; `clock` is not used.
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;

 private:
  const Experiment& experiment_;
  Jitter jitter_;
  std::vector<std::unique_ptr<PartitionClock>> clocks_;  // by rank; null for ranks in other processes
};

}  // namespace penstock
