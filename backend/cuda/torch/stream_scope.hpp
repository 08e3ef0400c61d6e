#pragma once
// Runs LibTorch on a worker's part of a GPU.

#include <memory>

#include "backend/cuda/workers.hpp"

namespace penstock::nn {

/// While an object exists, LibTorch's work on the calling thread goes to the worker's stream, and its matrix
/// products use only the SMs of the worker's partition. It must be destroyed on the thread that made it.
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

/// Returns a StreamScope, for stream_bound_module.hpp.
inline std::shared_ptr<void> enter_stream(const CudaPlace& place) {
  return std::make_shared<StreamScope>(place);
}

}  // namespace penstock::nn
