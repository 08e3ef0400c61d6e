#pragma once
// Classes for CUDA streams and events, and waits that can be stopped. Errors of CUDA are exceptions. The
// executor adds the rank and the action to their text.

#include <driver_types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

/// The error of a CUDA call, for example "cudaMemcpyAsync: cudaErrorIllegalAddress (700): an illegal memory
/// access was encountered".
class CudaError : public std::runtime_error {
 public:
  CudaError(std::string_view call, int code, std::string_view name, std::string_view meaning);

  const std::string& call() const { return call_; }
  int code() const { return code_; }

 private:
  std::string call_;
  int code_;
};

/// Returns the error text for `result`, which `call` returned. It is for callers that do not throw.
std::string in_words(cudaError_t result, std::string_view call);

/// Throws CudaError if `result`, which `call` returned, is not cudaSuccess.
void check_cuda(cudaError_t result, std::string_view call);

// Classes for CUDA streams and events, and functions that wait for them and can be stopped.

/// A reference to a stream that another object owns.
struct StreamView {
  std::int32_t device = 0;
  cudaStream_t stream = nullptr;
};

/// Makes `device` the current device of the calling thread.
void use_device(std::int32_t device);

/// An owner of a stream. The destructor destroys the stream.
class CudaStream {
 public:
  enum class Priority : std::uint8_t { normal, high };

  CudaStream() = default;
  /// Creates a stream that uses the whole device. The stream does not wait for CUDA's default stream.
  CudaStream(std::int32_t device, Priority priority);
  /// Takes ownership of a stream, for example the stream of a green context.
  CudaStream(std::int32_t device, cudaStream_t stream) : view_{device, stream} {}
  CudaStream(CudaStream&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  CudaStream& operator=(CudaStream&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream();

  const StreamView& view() const { return view_; }

 private:
  StreamView view_;
};

/// An owner of a CUDA event that records no time. The destructor destroys the event.
class CudaEvent {
 public:
  explicit CudaEvent(std::int32_t device);
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent();

  void record(const StreamView& stream);
  /// Makes work that is enqueued on `stream` after this call wait for all work before the last record().
  void hold_back(const StreamView& stream) const;
  /// Returns true if all work before the last record() has ended. Throws CudaError if that work failed.
  bool has_passed() const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// The conditions that end a wait before the awaited work has ended: a request to stop, or a deadline.
struct WaitLimits {
  std::function<bool()> stopped;  ///< function that ends the wait when it returns true; may be empty
  std::chrono::nanoseconds deadline = std::chrono::hours(24 * 365);
};

/// Polls until the event has passed. Between two polls, the thread sleeps for a few microseconds, so that
/// other threads can take the driver's lock. Throws CudaError if the work failed, Stopped if `limits.stopped`
/// returns true, and std::runtime_error after the deadline. Before it throws Stopped or std::runtime_error,
/// it calls give_up_devices().
void wait_for(const CudaEvent& event, const WaitLimits& limits);

/// Waits like wait_for(), but does not sleep between two polls. It is for measurements, because a sleep would
/// falsify a measured time.
void watch(const CudaEvent& event, const WaitLimits& limits);

/// Waits like the first wait_for(), but for all work that is now enqueued on `stream`.
void wait_for(const StreamView& stream, const WaitLimits& limits);

/// The time within which work on a device must end after a run has ended or failed.
inline constexpr std::chrono::seconds kUntilGivenUp(30);

/// Waits until all work on the stream has ended or failed, but not longer than kUntilGivenUp. Never throws,
/// so destructors can use it.
void end_or_give_up(const StreamView& stream);

/// Returns true if give_up_devices() was called. The program calls it when a wait ended too early and kernels
/// may still run. The process then frees no device memory, because freeing would wait for the kernels without
/// a deadline. The end of the process frees the memory.
bool devices_are_given_up();
void give_up_devices();

}  // namespace penstock
