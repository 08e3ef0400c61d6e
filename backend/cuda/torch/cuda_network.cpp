// The networks of backend/torch with their tensors on a worker's device. Weights and data are drawn on the
// CPU from the same seeds and then copied, so that a run on GPUs starts where a run on CPUs does; each module
// is bound to its worker's stream (stream_bound_module.cpp).

#include "backend/cuda/torch/cuda_network.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <tl/expected.hpp>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_bound_module.hpp"
#include "backend/cuda/torch/device_tensor_codec.hpp"
#include "backend/cuda/torch/stream_scope.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/torch/cut_network.hpp"
#include "backend/torch/models.hpp"
#include "backend/torch/networks.hpp"
#include "backend/torch/torch_stage.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/iterations.hpp"

namespace penstock::nn {
namespace {

constexpr std::chrono::minutes kUntilMade(5);  // weights of a whole stage

class CudaNetworkFamily : public ModuleFamily {
 public:
  CudaNetworkFamily(const Experiment& experiment, CutNetwork cut,
                    std::vector<std::optional<CudaPlace>> places)
      : experiment_(experiment), cut_(std::move(cut)), places_(std::move(places)) {}

  std::string description() const override {
    return "the network " + experiment_.network->spec.name + " on LibTorch on GPUs, in single precision";
  }

  StageModules modules(std::optional<std::int32_t> only, const Clock&) const override {
    StageModules all(places_.size());
    for (std::size_t rank = 0; rank < places_.size(); ++rank) {
      const auto number = static_cast<std::int32_t>(rank);
      const bool wanted = !only || *only == number;
      all[rank] = wanted && places_[rank] ? of_rank(number, *places_[rank])
                                          : std::vector<std::unique_ptr<StageModule>>(network_stages());
    }
    return bound_to_streams(std::move(all), places_, enter_stream);
  }

  RankAccount account(std::int32_t rank, const StageModules& modules) const override {
    RankAccount account;
    for (const auto& module : modules[static_cast<std::size_t>(rank)]) {
      if (!module) continue;
      const auto& bound = dynamic_cast<const StreamBoundModule&>(*module);
      const auto& stage = dynamic_cast<const TorchStage&>(bound.module());
      account.memory = stage.meter()->memory();
      account.losses.merge(stage.losses());
    }
    return account;
  }

 private:
  std::size_t network_stages() const { return static_cast<std::size_t>(experiment_.program.stage_count()); }

  /// Made on the rank's stream, and there when it returns: copies of weights are no part of a run.
  std::vector<std::unique_ptr<StageModule>> of_rank(std::int32_t rank, const CudaPlace& place) const {
    use_device(place.stream.device);
    const StreamScope scope(place);
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(place.stream.device));
    const auto here = [device](const RandomData& data) {
      return [device, data](std::int32_t microbatch) { return data.of(microbatch).to(device); };
    };
    const auto training = std::make_shared<Training>(
        Training{.inputs = here(cut_.network.inputs),
                 .targets = here(cut_.network.targets),
                 .optimizer = cut_.optimizer,
                 .loss_scale = 1.0 / microbatches_of_minibatch(experiment_.program),
                 .observer = {}});
    const Network& network = cut_.network;
    const auto definitions =
        split(network.model, cut_.cut, {.type = at::kFloat, .device = device}, network.inputs.of(0));
    StageModules made = torch_modules(experiment_.program, definitions, training, rank);
    wait_for(place.stream, {.stopped = {}, .deadline = kUntilMade});
    return std::move(made[static_cast<std::size_t>(rank)]);
  }

  const Experiment& experiment_;
  CutNetwork cut_;
  std::vector<std::optional<CudaPlace>> places_;  // by rank
};

}  // namespace

tl::expected<CudaModules, std::string> cuda_network(const Experiment& experiment,
                                                    const std::vector<std::optional<CudaPlace>>& places) {
  auto cut = cut_network(experiment);
  if (!cut) return tl::unexpected(std::move(cut.error()));
  return CudaModules{.family = std::make_unique<CudaNetworkFamily>(experiment, *std::move(cut), places),
                     .codec = std::make_unique<DeviceTensorCodec>()};
}

}  // namespace penstock::nn
