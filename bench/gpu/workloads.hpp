#pragma once
// The work of the workers of gpu_validation: a fixed amount, whose time is measured and not stated.

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

/// The work of one worker. An action gets as much work as takes about its stated time when all workers are
/// busy. The real time is measured.
class WorkClock : public Clock {
 public:
  /// `unit_ns` is the time of a unit; for occupy it is 1000.
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
  /// Runs this many units and waits for them. With occupy it holds for as many microseconds.
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

/// A family whose modules hold their rank's clock for every action.
class WorkFamily : public ModuleFamily {
 public:
  /// `nominal` has the approximate times of actions; clocks are by rank. Both must outlive the family.
  WorkFamily(const Experiment& nominal, const std::vector<std::unique_ptr<WorkClock>>& clocks)
      : nominal_(nominal), clocks_(clocks) {}

  std::string description() const override { return "work of a fixed amount"; }
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;

 private:
  const Experiment& nominal_;
  const std::vector<std::unique_ptr<WorkClock>>& clocks_;
};

}  // namespace penstock
