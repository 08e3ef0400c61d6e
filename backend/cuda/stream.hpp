#pragma once
// Streams and events: owners, a view, and waiting that can be stopped.

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include <driver_types.h>

namespace penstock {

/// A stream that somebody else owns.
struct StreamView {
  std::int32_t device = 0;
  cudaStream_t stream = nullptr;
};

/// Makes the device the calling thread's current one.
void use_device(std::int32_t device);

/// Owns a stream.
class CudaStream {
 public:
  enum class Priority : std::uint8_t { normal, high };

  CudaStream() = default;
  /// A new stream of the whole device, which does not wait for the default stream.
  CudaStream(std::int32_t device, Priority priority);
  /// Takes a stream over, as of a green context.
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

/// Owns an event without times.
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
  /// What comes later on `stream` waits for what was before the last record().
  void hold_back(const StreamView& stream) const;
  /// True when what was before the last record() has ended. Throws CudaError when it failed.
  bool has_passed() const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// Who may end a wait early.
struct WaitLimits {
  std::function<bool()> stopped;  ///< asked again and again; empty: nobody
  std::chrono::nanoseconds deadline = std::chrono::hours(24 * 365);
};

/// Looks until the event has passed. Between two looks the thread sleeps for a few microseconds: long enough
/// to leave the driver's lock to others, short against any action. Throws CudaError; Stopped; and
/// std::runtime_error when the deadline has passed. With these two the devices are given up.
void wait_for(const CudaEvent& event, const WaitLimits& limits);

/// The same without a pause between two looks, whose length would count where the time is taken.
void watch(const CudaEvent& event, const WaitLimits& limits);

/// As wait_for(), for all that `stream` has been given so far.
void wait_for(const StreamView& stream, const WaitLimits& limits);

/// How long what a device was given may take to end once a run has ended or failed.
inline constexpr std::chrono::seconds kUntilGivenUp(30);

/// Waits until all that the stream has been given has ended or failed, kUntilGivenUp at the most. For the end
/// of a run that has failed: throws nothing.
void end_or_give_up(const StreamView& stream);

/// A wait has ended before what it waited for: no memory that kernels may still use is freed by this process
/// any more, since freeing waits for them without a deadline. Its end, which is near, frees all.
bool devices_are_given_up();
void give_up_devices();

}  // namespace penstock
