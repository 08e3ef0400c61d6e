// The networks of backend/torch with their tensors on a worker's device. The CPU draws random weights and
// data from fixed seeds and copies them to the device. A run on GPUs therefore starts with the same numbers
// as a run on CPUs. This happens before the clock starts, because the CPU draws more slowly than the GPU
// computes. Each module runs on its worker's stream (stream_modules.cpp).
// tests/backend_cuda/torch/cuda_numbers_test.cpp compares the results with a CPU.

#include "backend/cuda/torch/cuda_network.hpp"

#include <cublas_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/record_function.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <tl/expected.hpp>

#include "backend/cuda/launch_count.hpp"
#include "backend/cuda/local_run.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_modules.hpp"
#include "backend/cuda/torch/device_tensor_codec.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/torch/networks.hpp"
#include "backend/torch/torch_stage.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock::nn {

namespace {

constexpr std::chrono::minutes kUntilMade(5);  // time limit for making the weights of a rank's stages

/// The values that determine the initial weights of the stages.
struct WeightsKey {
  std::string network;  // name, or folder of exported stages
  std::map<std::string, std::int64_t> sizes;
  Cut cut;
  std::int32_t device = 0;
  std::vector<bool> drawn;  // true for each stage with weights on this device, by stage

  friend bool operator==(const WeightsKey&, const WeightsKey&) = default;
};

/// Returns the stages with their initial weights on the device. To draw a random weight takes about 10 ns on
/// one core, and a calibration needs all weights in each run. So the stages are cached until another network
/// is requested. No run changes the cached weights, because a STEP makes new tensors.
const std::vector<StageDefinition>& stages_with_weights(const WeightsKey& key, const Network& network) {
  // The cached stages and their key, by device.
  static std::map<std::int32_t, std::pair<WeightsKey, std::vector<StageDefinition>>> cached;
  const auto found = cached.find(key.device);
  if (found != cached.end() && found->second.first == key) return found->second.second;
  cached.erase(key.device);
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(key.device));
  auto stages = split(network.model, key.cut, {.type = network.type, .device = device, .drawn = key.drawn},
                      network.inputs.of(0));
  return cached.emplace(key.device, std::pair(key, std::move(stages))).first->second.second;
}

/// The input or target tensors of all microbatches on one device.
using DeviceData = std::vector<at::Tensor>;

std::function<at::Tensor(std::int32_t)> by_microbatch(std::shared_ptr<const DeviceData> data) {
  return [data = std::move(data)](std::int32_t microbatch) { return data->at(index(microbatch)); };
}

class CudaNetworkFamily : public ModuleFamily {
 public:
  CudaNetworkFamily(const Experiment& experiment, CutNetwork cut,
                    std::vector<std::optional<CudaPlace>> places)
      : experiment_(experiment), cut_(std::move(cut)), places_(std::move(places)) {
    for (const auto& place : places_) {
      if (place)
        c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(place->stream.device));
    }
  }

  /// Returns the description of the network for the result. It includes the allocator's peak, so it must be
  /// called after the runs.
  std::string description() const override {
    std::string text = "the network " + experiment_.network->spec.name + " on LibTorch on GPUs, in " +
                       (cut_.network.type == at::kDouble ? "double" : "single") + " precision";
    for (const std::int32_t device : devices()) {
      const auto stats =
          c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
      const std::int64_t peak =
          stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
      text += "; LibTorch's allocator held at most " + std::to_string(peak >> 20) + " MiB on device " +
              std::to_string(device);
    }
    return text;
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

  std::set<std::int32_t> devices() const {
    std::set<std::int32_t> all;
    for (const auto& place : places_) {
      if (place) all.insert(place->stream.device);
    }
    return all;
  }

  /// Returns a flag for each stage: true if a rank of this process holds the stage on this device.
  std::vector<bool> stages_on(std::int32_t device) const {
    std::vector<bool> here(network_stages(), false);
    for (std::size_t stage = 0; stage < here.size(); ++stage) {
      for (const std::int32_t rank : experiment_.program.placement.stages[stage].ranks) {
        const auto& place = places_[index(rank)];
        if (place && place->stream.device == device) here[stage] = true;
      }
    }
    return here;
  }

  /// Returns the inputs and targets of all microbatches on the device. At the first call, draws them and
  /// copies them there. A device without a first stage gets no inputs, and a device without a last stage gets
  /// no targets.
  const std::pair<std::shared_ptr<const DeviceData>, std::shared_ptr<const DeviceData>>& data_on(
      const at::Device& device) const {
    const auto found = data_.find(device.index());
    if (found != data_.end()) return found->second;
    const std::vector<bool> here = stages_on(device.index());
    const std::int64_t microbatches =
        std::int64_t{experiment_.program.microbatches} * experiment_.program.iterations;
    const auto all = [&](const RandomData& data, bool wanted) {
      auto drawn = std::make_shared<DeviceData>();
      for (std::int32_t m = 0; wanted && m < microbatches; ++m) drawn->push_back(data.of(m).to(device));
      return drawn;
    };
    return data_
        .emplace(device.index(),
                 std::pair(all(cut_.network.inputs, here.front()), all(cut_.network.targets, here.back())))
        .first->second;
  }

  /// Makes the stage modules of a rank on its stream. Waits until their weights and data are copied,
  /// because the copies must not be part of a timed run.
  std::vector<std::unique_ptr<StageModule>> of_rank(std::int32_t rank, const CudaPlace& place) const {
    use_device(place.stream.device);
    const StreamScope scope(place);
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(place.stream.device));
    const auto& [inputs, targets] = data_on(device);
    const auto training = std::make_shared<Training>(
        Training{.inputs = by_microbatch(inputs),
                 .targets = by_microbatch(targets),
                 .optimizer = cut_.optimizer,
                 .loss_scale = 1.0 / microbatches_of_minibatch(experiment_.program),
                 .observer = {}});
    const NetworkSpec& spec = experiment_.network->spec;
    const auto& definitions = stages_with_weights({.network = spec.name + spec.graphs,
                                                   .sizes = {spec.sizes.begin(), spec.sizes.end()},
                                                   .cut = cut_.cut,
                                                   .device = place.stream.device,
                                                   .drawn = stages_on(place.stream.device)},
                                                  cut_.network);
    StageModules made = torch_modules(experiment_.program, definitions, training, rank);
    wait_for(place.stream, {.stopped = {}, .deadline = kUntilMade});
    return std::move(made[static_cast<std::size_t>(rank)]);
  }

  const Experiment& experiment_;
  CutNetwork cut_;
  // The hardware of each rank, or nothing for ranks in other processes.
  std::vector<std::optional<CudaPlace>> places_;
  mutable std::map<std::int32_t,
                   // Inputs and targets by device, which all runs share.
                   std::pair<std::shared_ptr<const DeviceData>, std::shared_ptr<const DeviceData>>>
      data_;
};

}  // namespace

tl::expected<CudaModules, std::string> cuda_network(const Experiment& experiment,
                                                    const std::vector<std::optional<CudaPlace>>& places) {
  auto cut = cut_network(experiment);
  if (!cut) return tl::unexpected(std::move(cut.error()));
  if (cut->network.exported && cut->network.device != at::kCUDA) {
    return tl::unexpected<std::string>(
        "the stages were exported for CPUs; export them from a module on a GPU, or take the backend "
        "cpu-thread or cpu-process");
  }
  // LibTorch starts CUDA only when it makes a tensor. Here a stream or a cuBLAS handle is used earlier, so
  // CUDA must be started now. If no rank has a place, this process may fork the ranks later. CUDA must not be
  // started in such a process, because it would fail in each child.
  const bool uses_gpu = std::ranges::any_of(places, [](const auto& place) { return place.has_value(); });
  if (uses_gpu) at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return CudaModules{.family = std::make_unique<CudaNetworkFamily>(experiment, *std::move(cut), places),
                     .codec = std::make_unique<DeviceTensorCodec>()};
}

// LibTorch uses the stream that a thread-local variable names. StreamScope sets this variable to the worker's
// stream and later restores it. cuBLAS chooses kernels by the number of SMs, so it must know the size of the
// partition.

namespace {

/// Sets the number of SMs on which cuBLAS assumes that its kernels run. LibTorch has one cuBLAS handle for
/// each thread and stream. Setting the number again takes no measurable time.
void count_on(std::int32_t sms) {
  const cublasStatus_t status = cublasSetSmCountTarget(at::cuda::getCurrentCUDABlasHandle(), sms);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("cublasSetSmCountTarget: ") + cublasGetStatusString(status));
}

/// Counts the launches of LibTorch's operations on this thread. An operation launches one kernel or two, or
/// none if it only makes a view or consists of other operations, which are counted as well.
void count_launches() {
  thread_local const at::CallbackHandle counted = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
        launches_of_this_thread += 2;
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  static_cast<void>(counted);
}

}  // namespace

struct StreamScope::Guard {
  explicit Guard(const CudaPlace& place)
      : stream(c10::cuda::getStreamFromExternal(place.stream.stream,
                                                static_cast<c10::DeviceIndex>(place.stream.device))) {}
  c10::cuda::CUDAStreamGuard stream;
};

StreamScope::StreamScope(const CudaPlace& place) : guard_(std::make_unique<Guard>(place)) {
  if (!place.whole) count_on(place.sms);
  count_launches();
}

StreamScope::~StreamScope() = default;

}  // namespace penstock::nn
