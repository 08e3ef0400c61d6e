#pragma once
// Memory of GPUs and host memory that they write to: owners.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace penstock {

/// Owns memory of one device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// All zero. Throws CudaError; what wait_for() throws where the device is kept from it, or `stopped` says
  /// so. Slow: not for timed iterations. The destructor waits for the device, unless it has been given up.
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

/// Moments of a device's %globaltimer, in host memory that kernels write to. All zero at first.
class PinnedMoments {
 public:
  explicit PinnedMoments(std::size_t count);
  PinnedMoments(const PinnedMoments&) = delete;
  PinnedMoments& operator=(const PinnedMoments&) = delete;
  ~PinnedMoments();

  /// Where a kernel of any device writes moment `i`.
  std::uint64_t* slot(std::size_t i) const { return moments_ + i; }
  /// Requires that the kernel that wrote it has ended.
  std::uint64_t moment(std::size_t i) const { return moments_[i]; }

 private:
  std::uint64_t* moments_ = nullptr;
};

/// Of moments that are starts and ends by number: where they lie.
inline std::size_t start_slot(std::int32_t number) { return 2 * static_cast<std::size_t>(number); }
inline std::size_t end_slot(std::int32_t number) { return start_slot(number) + 1; }

}  // namespace penstock
