// CUDA streams, and waits for them that can be stopped. The host polls an event every 2 us, because a call
// of cudaStreamSynchronize could not be stopped. Streams are created as non-blocking. Otherwise CUDA's
// default stream would make them wait for each other.

#include "backend/cuda/stream.hpp"

#include <cuda_runtime_api.h>
#include <driver_types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "backend/cuda/launch_count.hpp"
#include "backend/executor/transport.hpp"

namespace penstock {

namespace {

constexpr std::chrono::microseconds kBetweenLooks(2);

std::atomic<bool> given_up = false;  // true after a wait has ended early; stays true until the process ends

/// Returns CUDA's number for a priority. In CUDA, a smaller number is a higher priority.
int priority_of(CudaStream::Priority priority) {
  int least = 0;
  int greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  return priority == CudaStream::Priority::high ? greatest : least;
}

/// Polls the event until it has passed or a limit ends the wait. If the wait ends early, the GPU may still
/// use this process's memory. No device memory may be freed from then on.
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
  ++launches_of_this_thread;
  check_cuda(cudaEventRecord(event_, stream.stream), "cudaEventRecord");
}

void CudaEvent::hold_back(const StreamView& stream) const {
  ++launches_of_this_thread;
  check_cuda(cudaStreamWaitEvent(stream.stream, event_, 0), "cudaStreamWaitEvent");
}

bool CudaEvent::has_passed() const {
  const cudaError_t result = cudaEventQuery(event_);
  if (result == cudaErrorNotReady) {
    // Clears the error "not ready". Otherwise a later launch would report this error.
    static_cast<void>(cudaGetLastError());
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

// Checks the result of each CUDA call at once. CUDA stores an error and reports it again at a later,
// unrelated call. So the error is cleared after it was read.

namespace {

std::string sentence(std::string_view call, int code, std::string_view name, std::string_view meaning) {
  return fmt::format("{}: {} ({}): {}", call, name, code, meaning);
}

}  // namespace

CudaError::CudaError(std::string_view call, int code, std::string_view name, std::string_view meaning)
    : std::runtime_error(sentence(call, code, name, meaning)), call_(call), code_(code) {}

std::string in_words(cudaError_t result, std::string_view call) {
  return sentence(call, result, cudaGetErrorName(result), cudaGetErrorString(result));
}

void check_cuda(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) return;
  // Clears the error that CUDA has stored. Otherwise the next launch would report this error again.
  static_cast<void>(cudaGetLastError());
  throw CudaError(call, result, cudaGetErrorName(result), cudaGetErrorString(result));
}

}  // namespace penstock
