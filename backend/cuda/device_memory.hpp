#pragma once
// Classes that own device memory, or host memory to which GPUs write.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace penstock {

/// An owner of a block of memory on one device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Allocates memory that is filled with zeros. Throws CudaError. If the device is blocked or `stopped`
  /// returns true, throws like wait_for(). Allocation is slow, so it must not happen in timed iterations. The
  /// destructor waits for the device, unless devices_are_given_up() returns true.
  DeviceBuffer(std::int32_t device, std::size_t bytes, const std::function<bool()>& stopped = {});
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(other.device_),
        bytes_(std::exchange(other.bytes_, 0)),
        data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  std::int32_t device() const { return device_; }
  std::size_t bytes() const { return bytes_; }
  void* data() const { return data_; }

 private:
  std::int32_t device_ = 0;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
};

/// Times of a device's %globaltimer, in host memory to which kernels write. All are 0 at first.
class PinnedMoments {
 public:
  explicit PinnedMoments(std::size_t count);
  PinnedMoments(const PinnedMoments&) = delete;
  PinnedMoments& operator=(const PinnedMoments&) = delete;
  ~PinnedMoments();

  /// Returns the address to which a kernel on any device writes time `i`.
  std::uint64_t* slot(std::size_t i) const { return moments_ + i; }
  /// Returns time `i`. Requires that the kernel that wrote it has ended.
  std::uint64_t moment(std::size_t i) const { return moments_[i]; }

 private:
  std::uint64_t* moments_ = nullptr;
};

/// start_slot() and end_slot() return the indices at which the start and the end of a message or action are
/// stored in PinnedMoments.
inline std::size_t start_slot(std::int32_t number) { return 2 * static_cast<std::size_t>(number); }
inline std::size_t end_slot(std::int32_t number) { return start_slot(number) + 1; }

}  // namespace penstock
