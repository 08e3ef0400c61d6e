// A module that wraps another one (the decorator pattern of Gamma et al.). During each call, the worker's
// stream is the library's current stream. The call returns when the work is enqueued. Memory that the module
// frees goes back to the stream's own pool, so it is reused only after that work.

#include "backend/cuda/stream_bound_module.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/stage_module.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

void StreamBoundModule::on_stream(const std::function<void()>& work) const {
  use_device(place_.stream.device);
  const std::shared_ptr<void> scope = enter_(place_);
  work();
}

std::vector<Payload> StreamBoundModule::forward(const ComputeCall& call, std::vector<Payload> inputs) {
  std::vector<Payload> outputs;
  on_stream([&] { outputs = module_->forward(call, std::move(inputs)); });
  return outputs;
}

std::vector<Payload> StreamBoundModule::backward(const ComputeCall& call, std::vector<Payload> gradients) {
  std::vector<Payload> outputs;
  on_stream([&] { outputs = module_->backward(call, std::move(gradients)); });
  return outputs;
}

std::vector<Payload> StreamBoundModule::backward_input(const ComputeCall& call,
                                                       std::vector<Payload> gradients) {
  std::vector<Payload> outputs;
  on_stream([&] { outputs = module_->backward_input(call, std::move(gradients)); });
  return outputs;
}

void StreamBoundModule::backward_weight(const ComputeCall& call) {
  on_stream([&] { module_->backward_weight(call); });
}

void StreamBoundModule::recompute(const ComputeCall& call) {
  on_stream([&] { module_->recompute(call); });
}

void StreamBoundModule::step(const ComputeCall& call) {
  on_stream([&] { module_->step(call); });
}

void StreamBoundModule::drop_version(std::int32_t version) {
  on_stream([&] { module_->drop_version(version); });
}

Payload StreamBoundModule::contribution(ActionKind collective) {
  Payload given;
  on_stream([&] { given = module_->contribution(collective); });
  return given;
}

void StreamBoundModule::accept(ActionKind collective, std::span<const SharedPayload> contributions) {
  on_stream([&] { module_->accept(collective, contributions); });
}

void StreamBoundModule::reshard() {
  on_stream([&] { module_->reshard(); });
}

StageModules bound_to_streams(StageModules modules, const std::vector<std::optional<CudaPlace>>& places,
                              const EnterStream& enter) {
  for (std::size_t rank = 0; rank < modules.size(); ++rank) {
    for (auto& module : modules[rank]) {
      if (module != nullptr) {
        module = std::make_unique<StreamBoundModule>(std::move(module), places.at(rank).value(), enter);
      }
    }
  }
  return modules;
}

}  // namespace penstock
