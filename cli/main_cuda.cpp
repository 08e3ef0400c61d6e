// Main program of `penstock-cuda`. It has the GPU backends, and networks if LibTorch was found. `penstock`
// starts it when a run needs it. Parts that were not found at build time are left out (PENSTOCK_HAS_NCCL,
// PENSTOCK_HAS_TORCH).

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/self_test.hpp"
#include "backend/cuda/stream_modules.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/measured_run.hpp"
#include "cli/executable.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"

#ifdef PENSTOCK_HAS_NCCL
#include "backend/nccl/nccl_run.hpp"
#endif
#ifdef PENSTOCK_HAS_TORCH_CUDA
#include "backend/cuda/torch/cuda_network.hpp"
#endif
#ifdef PENSTOCK_HAS_TORCH
#include "backend/torch/networks.hpp"
#include "schedules/check/user_error.hpp"
#endif

namespace {

using namespace penstock;

/// Makes the experiment's network on the GPUs of the workers, which `places` lists. Returns an error if
/// this build has no LibTorch with CUDA.
tl::expected<CudaModules, std::string> network_on(const Experiment& experiment,
                                                  const std::vector<std::optional<CudaPlace>>& places) {
#ifdef PENSTOCK_HAS_TORCH_CUDA
  return nn::cuda_network(experiment, places);
#else
  static_cast<void>(experiment);
  static_cast<void>(places);
  return tl::unexpected(std::string(
      "networks need a LibTorch with CUDA; --occupy holds each action for the time that the costs say"));
#endif
}

/// Returns a function that makes the stage modules. The run calls it after the workers have chosen their
/// GPUs. `call` must outlive the function.
MakeCudaModules modules_for(const BackendCall& call) {
  return
      [&call](const std::vector<std::optional<CudaPlace>>& places) -> tl::expected<CudaModules, std::string> {
        if (call.experiment.network) return network_on(call.experiment, places);
        return CudaModules{.family = std::make_unique<CudaOccupyFamily>(call.experiment, call.jitter,
                                                                        call.options.time_scale, places)};
      };
}

/// Runs all workers in this process, on partitions of one GPU or on one GPU for each worker.
tl::expected<std::optional<Result>, UserError> cuda_local(const BackendCall& call) {
  return run_on_cuda_local(call.experiment, call.pace, call.options, modules_for(call));
}

#ifdef PENSTOCK_HAS_NCCL
/// Runs one process for each GPU. Either this process forks them, or a launcher has started them. Only rank 0
/// returns a result.
tl::expected<std::optional<Result>, UserError> nccl(const BackendCall& call) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
  const auto place =
      nccl_place([](const char* name) { return std::getenv(name); }, call.experiment.program.rank_count());
  if (!place) return user_error(ErrorKind::bad_input, "nccl: " + place.error());
  return run_on_nccl(call.experiment, call.pace, call.options, modules_for(call), *place);
}
#else
tl::expected<std::optional<Result>, UserError> nccl(const BackendCall&) {
  return user_error(ErrorKind::not_available, "nccl: NCCL was not found when penstock-cuda was built");
}
#endif

/// Tests the GPUs of this machine. NCCL is tested first, because its processes must be forked before this
/// process starts CUDA.
tl::expected<SelfTestAnswer, UserError> selftest() {
  const auto unavailable = [](std::string why) {
    return user_error(ErrorKind::not_available, std::move(why));
  };
  const auto devices = cuda_device_count_by_child();
  if (!devices) return unavailable(devices.error());
  ask_for_hardware_queues();
  SelfTestAnswer over_nccl;
#ifdef PENSTOCK_HAS_NCCL
  if (devices->devices > 1) {
    const auto said = nccl_self_test();
    if (!said) return tl::unexpected(said.error());
    over_nccl.text = *said;
  }
#endif
  const auto copies = self_test();
  if (!copies) return unavailable(copies.error());
#ifdef PENSTOCK_HAS_NCCL
  if (devices->devices == 1) {
    const std::vector<DeviceCheck> checks = check_nccl_alone(0);
    over_nccl = {.text = to_text(checks), .all_right = all_right(checks)};
  }
#endif
  return SelfTestAnswer{.text = to_text(*copies) + over_nccl.text,  // The simpler test is printed first.
                        .all_right = copies->all_right() && over_nccl.all_right};
}

Extensions extensions() {
  Extensions all{.backends = {{"cuda-local", cuda_local}, {"nccl", nccl}},
                 .network = {},
                 .profile = {},
                 .selftest = selftest};
#ifdef PENSTOCK_HAS_TORCH
  all.network = nn::network_family;
  all.profile = nn::profile_network;
#endif
  return all;
}

}  // namespace

int main(int argc, char** argv) { return program_main(argc, argv, AddressSpace::unbounded, extensions()); }
