#pragma once
// Streams and events: owners, a view, and waits that can be stopped.

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include <driver_types.h>

namespace penstock {

/// A stream that another object owns.
struct StreamView {
  std::int32_t device = 0;
  cudaStream_t stream = nullptr;
};

/// Makes the device the calling thread's current one.
void use_device(std::int32_t device);

/// A stream, destroyed by the destructor.
class CudaStream {
 public:
  enum class Priority : std::uint8_t { normal, high };

  CudaStream() = default;
  /// Creates a stream of the whole device, which does not wait for the default stream.
  CudaStream(std::int32_t device, Priority priority);
  /// Takes ownership of a stream, for example of a green context.
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

/// An event without times, destroyed by the destructor.
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
  /// Makes later work on `stream` wait for the work before the last record().
  void hold_back(const StreamView& stream) const;
  /// Returns whether the work before the last record() has ended. Throws CudaError if it failed.
  bool has_passed() const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// The conditions that end a wait early.
struct WaitLimits {
  std::function<bool()> stopped;  ///< polled during the wait; may be empty
  std::chrono::nanoseconds deadline = std::chrono::hours(24 * 365);
};

/// Polls until the event has passed. Between two polls the thread sleeps for a few microseconds: long enough
/// to leave the driver's lock to other threads, and short compared with an action. Throws CudaError, Stopped,
/// or std::runtime_error after the deadline. The last two give up the devices.
void wait_for(const CudaEvent& event, const WaitLimits& limits);

/// Like wait_for(), without a pause between two polls, because a pause would count in a measured time.
void watch(const CudaEvent& event, const WaitLimits& limits);

/// Like the other wait_for(), for everything that is on `stream` so far.
void wait_for(const StreamView& stream, const WaitLimits& limits);

/// Limit for work on a device to end after a run has ended or failed.
inline constexpr std::chrono::seconds kUntilGivenUp(30);

/// Waits until all work on the stream has ended or failed, for at most kUntilGivenUp. It is used after a
/// failure and throws nothing.
void end_or_give_up(const StreamView& stream);

/// Say that a wait ended before its event. This process then frees no memory that kernels may still use,
/// because freeing waits for them without a deadline. The process is about to end, which frees everything.
bool devices_are_given_up();
void give_up_devices();

}  // namespace penstock
