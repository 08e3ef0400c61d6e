#pragma once
// What the workers of gpu_validation compute: work of a fixed amount, whose time is measured, not stated.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/module_family.hpp"
#include "bench/gpu/nominal_costs.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// One worker's work. It does as much for an action as takes about the action's stated time when all workers
/// are busy; what it really takes is measured.
class WorkClock : public Clock {
 public:
  /// `unit_ns`: what a unit takes. Of occupy: 1000.
  WorkClock(GpuWorkload workload, const CudaPlace& place, Ns unit_ns);
  ~WorkClock() override;

  Ns now_ns() const override { return host_.now_ns(); }
  /// From one thread. Gives the worker's stream round(duration_ns / unit_ns) units, at least one, and returns
  /// at once.
  void hold_for(Ns duration_ns, const std::stop_token& stop) const override;
  std::chrono::steady_clock::time_point moment_of(Ns time_ns) const override {
    return host_.moment_of(time_ns);
  }

  void set_unit(Ns unit_ns) { unit_ns_ = unit_ns; }
  /// Runs that many units and waits for them. Of occupy: holds for so many microseconds.
  void do_units(std::int64_t units) const;
  /// As hold_for(), and waits for them.
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

/// Modules whose every action holds its rank's clock.
class WorkFamily : public ModuleFamily {
 public:
  /// `nominal` has the times that the actions take about; clocks are by rank. Both outlive the family.
  WorkFamily(const Experiment& nominal, const std::vector<std::unique_ptr<WorkClock>>& clocks)
      : nominal_(nominal), clocks_(clocks) {}

  std::string description() const override { return "work of a fixed amount"; }
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;

 private:
  const Experiment& nominal_;
  const std::vector<std::unique_ptr<WorkClock>>& clocks_;
};

}  // namespace penstock
