// Allocates device memory and pinned host memory. cudaMalloc and cudaFree wait for the whole device, so no
// memory is allocated while a run is timed. Kernels write times into pinned memory, which the host reads
// without a CUDA call.

#include "backend/cuda/device_memory.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include <cuda_runtime_api.h>
#include <driver_types.h>

#include "backend/cuda/stream.hpp"

namespace penstock {
namespace {

constexpr std::chrono::seconds kUntilZero(30);  // memset takes milliseconds; a busy device may need longer

}  // namespace

DeviceBuffer::DeviceBuffer(std::int32_t device, std::size_t bytes, const std::function<bool()>& stopped)
    : device_(device), bytes_(bytes) {
  if (bytes == 0) return;
  use_device(device);
  check_cuda(cudaMalloc(&data_, bytes), "cudaMalloc");
  try {
    // This call waits only for its own stream. Waiting for the whole device could hang, because kernels on
    // other streams may wait for a later action of this thread.
    check_cuda(cudaMemsetAsync(data_, 0, bytes, cudaStreamPerThread), "cudaMemsetAsync");
    wait_for(StreamView{.device = device, .stream = cudaStreamPerThread},
             {.stopped = stopped, .deadline = kUntilZero});
  } catch (...) {
    if (!devices_are_given_up()) static_cast<void>(cudaFree(data_));
    throw;
  }
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr && !devices_are_given_up()) static_cast<void>(cudaFree(data_));
}

PinnedMoments::PinnedMoments(std::size_t count) {
  const std::size_t bytes = std::max<std::size_t>(count, 1) * sizeof(std::uint64_t);
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
  std::memset(memory, 0, bytes);
  moments_ = static_cast<std::uint64_t*>(memory);
}

PinnedMoments::~PinnedMoments() {
  if (!devices_are_given_up()) static_cast<void>(cudaFreeHost(moments_));
}

}  // namespace penstock
