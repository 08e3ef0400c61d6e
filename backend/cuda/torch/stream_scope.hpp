#pragma once
// Makes LibTorch work on a worker's stream and SMs.

#include <memory>

#include "backend/cuda/workers.hpp"

namespace penstock::nn {

/// While this object exists, LibTorch runs the calling thread's work on the worker's stream. Its matrix
/// products use only the SMs of the worker's partition. The thread that made the object must destroy it.
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

/// Returns a StreamScope, as EnterStream in stream_bound_module.hpp requires.
inline std::shared_ptr<void> enter_stream(const CudaPlace& place) {
  return std::make_shared<StreamScope>(place);
}

}  // namespace penstock::nn
