#pragma once
// Runs any stage module on the stream of a worker.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/workers.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/stage_module.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A function that makes the worker's stream the current stream of a library, such as LibTorch, on the
/// calling thread. The stream stays current until the returned object is destroyed.
using EnterStream = std::function<std::shared_ptr<void>(const CudaPlace& place)>;

/// A module that runs another module's work on the worker's stream. A call returns when the work is enqueued.
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

/// Wraps each module so that it runs on the stream of its rank's place. Requires that ranks without a place
/// have no modules.
StageModules bound_to_streams(StageModules modules, const std::vector<std::optional<CudaPlace>>& places,
                              const EnterStream& enter);

}  // namespace penstock
