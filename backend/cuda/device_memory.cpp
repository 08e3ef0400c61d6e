// Owners of device and pinned memory, and the stock. cudaMalloc and cudaFree wait for the whole device, so
// nothing is allocated while a run is timed: the first run fills the stock, later ones only borrow from it. A
// buffer lent is the smallest that is large enough. Pinned moments are written by kernels and read by the
// host without a call.

#include "backend/cuda/device_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include <cuda_runtime_api.h>
#include <driver_types.h>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/stream.hpp"

namespace penstock {

DeviceBuffer::DeviceBuffer(std::int32_t device, std::size_t bytes) : device_(device), bytes_(bytes) {
  if (bytes == 0) return;
  use_device(device);
  check_cuda(cudaMalloc(&data_, bytes), "cudaMalloc");
  try {
    // Nothing here waits for the device: kernels on it may wait for what this thread does next.
    check_cuda(cudaMemsetAsync(data_, 0, bytes, cudaStreamPerThread), "cudaMemsetAsync");
    wait_for(StreamView{.device = device, .stream = cudaStreamPerThread}, {});
  } catch (...) {
    static_cast<void>(cudaFree(data_));
    throw;
  }
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) static_cast<void>(cudaFree(data_));
}

DeviceBuffer BufferStock::lend(std::int32_t device, std::size_t bytes) {
  {
    const std::scoped_lock lock(mutex_);
    const auto fitting = free_.lower_bound({device, bytes});
    if (fitting != free_.end() && fitting->first.first == device) {
      DeviceBuffer lent = std::move(fitting->second);
      free_.erase(fitting);
      return lent;
    }
  }
  return {device, bytes};
}

void BufferStock::give_back(DeviceBuffer buffer) {
  const std::scoped_lock lock(mutex_);
  const std::pair key(buffer.device(), buffer.bytes());
  free_.emplace(key, std::move(buffer));
}

PinnedMoments::PinnedMoments(std::size_t count) {
  const std::size_t bytes = std::max<std::size_t>(count, 1) * sizeof(std::uint64_t);
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
  std::memset(memory, 0, bytes);
  moments_ = static_cast<std::uint64_t*>(memory);
}

PinnedMoments::~PinnedMoments() { static_cast<void>(cudaFreeHost(moments_)); }

}  // namespace penstock
