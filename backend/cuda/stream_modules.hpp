#pragma once
// Stage modules on a worker's part of a GPU. One class runs any module on the worker's stream. Occupy
// modules do not compute a model: each action is a kernel that runs for the stated time.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A function that makes a worker's stream the current stream of a library, such as LibTorch, on the
/// calling thread. It stays the current stream until the returned object is destroyed.
using EnterStream = std::function<std::shared_ptr<void>(const CudaPlace& place)>;

/// A module that runs the work of another module on the worker's stream. Each call returns as soon as the
/// work is enqueued.
class StreamBoundModule : public StageModule {
 public:
  StreamBoundModule(std::unique_ptr<StageModule> module, const CudaPlace& place, EnterStream enter)
      : module_(std::move(module)), place_(place), enter_(std::move(enter)) {}

  std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload> inputs) override;
  std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload> gradients) override;
  std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload> gradients) override;
  void backward_weight(const ComputeCall& call) override;
  void recompute(const ComputeCall& call) override;
  void step(const ComputeCall& call) override;
  void drop_version(std::int32_t version) override;
  Payload contribution(ActionKind collective) override;
  void accept(ActionKind collective, std::span<const SharedPayload> contributions) override;
  void reshard() override;

  const StageModule& module() const { return *module_; }

 private:
  void on_stream(const std::function<void()>& work) const;

  std::unique_ptr<StageModule> module_;
  CudaPlace place_;
  EnterStream enter_;
};

/// Returns the modules wrapped so that each runs on the stream of its rank's place. A rank without a place
/// must have no modules.
StageModules bound_to_streams(StageModules modules, const std::vector<std::optional<CudaPlace>>& places,
                              const EnterStream& enter);

// Occupy modules on GPUs. Each action is a kernel that computes nothing and runs for the stated time on its
// worker's stream.

/// A clock that makes the worker's stream wait with a kernel, instead of making the thread sleep.
class PartitionClock : public Clock {
 public:
  PartitionClock(double scale, const CudaPlace& place) : host_(scale), scale_(scale), place_(place) {}

  Ns now_ns() const override { return host_.now_ns(); }
  /// Enqueues a kernel that delays all later work on the stream by `duration_ns`. Returns before the kernel
  /// ends. Only one thread may call it.
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
  /// Prepares the family. `places` has one element for each rank. `experiment` and the streams of the
  /// places must outlive this object.
  CudaOccupyFamily(const Experiment& experiment, const Jitter& jitter, double time_scale,
                   const std::vector<std::optional<CudaPlace>>& places);

  std::string description() const override;
  /// Returns modules whose actions block the stream of their worker. Does not use `clock`.
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;

 private:
  const Experiment& experiment_;
  Jitter jitter_;
  // The clock of each rank, or null for ranks in other processes.
  std::vector<std::unique_ptr<PartitionClock>> clocks_;
};

}  // namespace penstock
