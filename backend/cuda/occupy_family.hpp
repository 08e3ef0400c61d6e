#pragma once
// Occupy modules on GPUs. Each action is a kernel that computes nothing and runs for the stated time on its
// worker's stream.

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

/// A clock that blocks the worker's stream with a kernel and does not make the thread sleep.
class PartitionClock : public Clock {
 public:
  PartitionClock(double scale, const CudaPlace& place) : host_(scale), scale_(scale), place_(place) {}

  Ns now_ns() const override { return host_.now_ns(); }
  /// Enqueues a kernel that delays all later work on the stream by `duration_ns`. Returns at once. Only one
  /// thread may call it.
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
  /// `places` has one element for each rank. `experiment` and the streams of the places must outlive this
  /// object.
  CudaOccupyFamily(const Experiment& experiment, const Jitter& jitter, double time_scale,
                   const std::vector<std::optional<CudaPlace>>& places);

  std::string description() const override;
  /// Returns modules that block their worker's stream. Does not use `clock`.
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;

 private:
  const Experiment& experiment_;
  Jitter jitter_;
  // The clock of each rank, or null for ranks in other processes.
  std::vector<std::unique_ptr<PartitionClock>> clocks_;
};

}  // namespace penstock
