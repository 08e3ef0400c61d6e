#pragma once
// Makes the neural network of an experiment on GPUs. The transports cuda-local and nccl run it if the
// scenario names a network.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/workers.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock::nn {

/// Returns the family of modules that train experiment.network, and the codec for their messages. The
/// experiment must have a network and outlive the result. The weights, data and activations of a rank's
/// modules are on the rank's device. Ranks without a place get no modules. Starts CUDA in this process if
/// any rank has a place. Fails if cut_network() fails.
tl::expected<CudaModules, std::string> cuda_network(const Experiment& experiment,
                                                    const std::vector<std::optional<CudaPlace>>& places);

// Makes LibTorch work on a worker's stream and SMs.

/// An object during whose lifetime LibTorch runs the calling thread's work on the worker's stream. Its
/// matrix products use only the SMs of the worker's partition. The thread that made the object must destroy
/// it.
class StreamScope {
 public:
  explicit StreamScope(const CudaPlace& place);
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
  ~StreamScope();

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

/// Returns a new StreamScope. This function is an EnterStream (stream_modules.hpp).
inline std::shared_ptr<void> enter_stream(const CudaPlace& place) {
  return std::make_shared<StreamScope>(place);
}

}  // namespace penstock::nn
