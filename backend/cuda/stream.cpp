// Streams, and waits that can be stopped. The host polls an event every 2 us instead of calling
// cudaStreamSynchronize, which only the GPU could end. Streams are non-blocking, because CUDA's default
// stream would put them in order.

#include "backend/cuda/stream.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <thread>

#include <cuda_runtime_api.h>
#include <driver_types.h>
#include <fmt/format.h>

#include "backend/cuda/cuda_error.hpp"
#include "backend/executor/transport.hpp"

namespace penstock {
namespace {

constexpr std::chrono::microseconds kBetweenLooks(2);

std::atomic<bool> given_up = false;  // true for the rest of the process

/// Returns CUDA's number of a priority. CUDA's highest priority is its smallest number.
int priority_of(CudaStream::Priority priority) {
  int least = 0;
  int greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  return priority == CudaStream::Priority::high ? greatest : least;
}

/// Polls the event. A wait that ends early leaves the GPU working on this process's memory, so from then on
/// no memory may be freed.
template <typename Pause>
void wait_with(const CudaEvent& event, const WaitLimits& limits, const Pause& pause) {
  const auto begin = std::chrono::steady_clock::now();
  while (!event.has_passed()) {
    if (limits.stopped && limits.stopped()) {
      give_up_devices();
      throw Stopped{};
    }
    if (std::chrono::steady_clock::now() - begin > limits.deadline) {
      give_up_devices();
      throw std::runtime_error(fmt::format("the GPU did not end it within {:g} s",
                                           std::chrono::duration<double>(limits.deadline).count()));
    }
    pause();
  }
}

}  // namespace

bool devices_are_given_up() { return given_up; }
void give_up_devices() { given_up = true; }

void end_or_give_up(const StreamView& stream) {
  if (devices_are_given_up()) return;
  try {
    use_device(stream.device);
    wait_for(stream, {.stopped = {}, .deadline = kUntilGivenUp});
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the run has said why
  }
}

void use_device(std::int32_t device) { check_cuda(cudaSetDevice(device), "cudaSetDevice"); }

CudaStream::CudaStream(std::int32_t device, Priority priority) : view_{device, nullptr} {
  use_device(device);
  check_cuda(cudaStreamCreateWithPriority(&view_.stream, cudaStreamNonBlocking, priority_of(priority)),
             "cudaStreamCreateWithPriority");
}

CudaStream::~CudaStream() {
  if (view_.stream != nullptr) static_cast<void>(cudaStreamDestroy(view_.stream));
}

CudaEvent::CudaEvent(std::int32_t device) {
  use_device(device);
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}

void CudaEvent::record(const StreamView& stream) {
  check_cuda(cudaEventRecord(event_, stream.stream), "cudaEventRecord");
}

void CudaEvent::hold_back(const StreamView& stream) const {
  check_cuda(cudaStreamWaitEvent(stream.stream, event_, 0), "cudaStreamWaitEvent");
}

bool CudaEvent::has_passed() const {
  const cudaError_t result = cudaEventQuery(event_);
  if (result == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // "not ready" must not be reported by a later launch
    return false;
  }
  check_cuda(result, "cudaEventQuery");
  return true;
}

void wait_for(const CudaEvent& event, const WaitLimits& limits) {
  wait_with(event, limits, [] { std::this_thread::sleep_for(kBetweenLooks); });
}

void watch(const CudaEvent& event, const WaitLimits& limits) {
  wait_with(event, limits, [] {});
}

void wait_for(const StreamView& stream, const WaitLimits& limits) {
  CudaEvent all(stream.device);
  all.record(stream);
  wait_for(all, limits);
}

}  // namespace penstock
