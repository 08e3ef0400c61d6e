// Runs any stage module on the stream of a worker. The class wraps another module (the decorator pattern
// of Gamma et al.). During each call, the worker's stream is the library's current stream. A call returns
// when its work is enqueued. Memory that the module frees returns to the pool of this stream, so it is
// reused only after that work.

#include "backend/cuda/stream_modules.hpp"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "report/print/units.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

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

// Occupy modules whose clock blocks the GPU. An action of 5 ms becomes a kernel that runs for 5 ms in the
// worker's partition. Actions thus take exactly the time in the scenario. The time between them (launches,
// waits, copies) is the real time of the GPU.

/// Launches a kernel that runs for `duration_ns` and ends by itself. No thread waits here, so the stop
/// token is not needed.
void PartitionClock::hold_for(Ns duration_ns, const std::stop_token&) const {
  const std::chrono::nanoseconds whole(std::llround(static_cast<double>(duration_ns) * scale_));
  use_device(place_.stream.device);
  launch_hold(static_cast<std::uint64_t>(whole.count()), place_.stream.stream);
}

CudaOccupyFamily::CudaOccupyFamily(const Experiment& experiment, const Jitter& jitter, double time_scale,
                                   const std::vector<std::optional<CudaPlace>>& places)
    : experiment_(experiment), jitter_(jitter) {
  for (const auto& place : places) {
    clocks_.push_back(place ? std::make_unique<PartitionClock>(time_scale, *place) : nullptr);
  }
}

std::string CudaOccupyFamily::description() const {
  std::string text =
      "occupy kernels: each action holds its worker's part of a GPU for the time that the costs say";
  if (jitter_.fraction > 0) {
    text += fmt::format(", which varies by {} either way (seed {})", format_percent(jitter_.fraction),
                        jitter_.seed);
  }
  return text;
}

StageModules CudaOccupyFamily::modules(std::optional<std::int32_t>, const Clock&) const {
  const Program& program = experiment_.program;
  StageModules modules(static_cast<std::size_t>(program.rank_count()));
  for (auto& of_rank : modules) of_rank.resize(static_cast<std::size_t>(program.stage_count()));
  for (std::size_t stage = 0; stage < program.placement.stages.size(); ++stage) {
    for (const std::int32_t rank : program.placement.stages[stage].ranks) {
      const auto& clock = clocks_[static_cast<std::size_t>(rank)];
      // Another process has this rank.
      if (clock == nullptr) continue;
      modules[static_cast<std::size_t>(rank)][stage] =
          std::make_unique<OccupyModule>(experiment_.costs, *clock, jitter_);
    }
  }
  return modules;
}

}  // namespace penstock
