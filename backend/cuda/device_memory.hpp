#pragma once
// Classes that own device memory, and host memory to which GPUs write. An interface for packing payloads
// into device memory is also here.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"

namespace penstock {

/// An owner of a block of memory on one device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Allocates a block of memory and fills it with zeros. Throws CudaError. If the device is blocked or
  /// `stopped` returns true, throws the exceptions of wait_for(). Allocation is slow, so it must not happen
  /// in timed iterations. The destructor waits for the device, unless devices_are_given_up() returns true.
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

/// An array of times that kernels read from a device's timer (%globaltimer) and write into host memory. All
/// times are 0 at first.
class PinnedMoments {
 public:
  explicit PinnedMoments(std::size_t count);
  PinnedMoments(const PinnedMoments&) = delete;
  PinnedMoments& operator=(const PinnedMoments&) = delete;
  ~PinnedMoments();

  /// Returns the address to which a kernel on any device writes time `i`.
  std::uint64_t* slot(std::size_t i) const { return moments_ + i; }
  /// Returns the time with index `i`. Requires that the kernel that wrote it has ended.
  std::uint64_t moment(std::size_t i) const { return moments_[i]; }

 private:
  std::uint64_t* moments_ = nullptr;
};

/// Returns the index in PinnedMoments of the start of the message or action with this number. The next
/// function, end_slot(), returns the index of its end.
inline std::size_t start_slot(std::int32_t number) { return 2 * static_cast<std::size_t>(number); }
inline std::size_t end_slot(std::int32_t number) { return start_slot(number) + 1; }

// The interface between GPU transports and the payloads of stage modules. A transport handles only bytes of
// device memory and their layout.

/// The type of the numbers in a packed payload. A transport that adds up payloads needs this type.
enum class DeviceNumber : std::uint8_t { float64, float32, float16, bfloat16, other };
struct DeviceRun {
  DeviceNumber type = DeviceNumber::other;
  std::size_t bytes = 0;
};

/// The layout of a payload that is packed into one block of bytes.
struct DeviceLayout {
  std::string text;             ///< description of the payload, which unpack() needs
  std::vector<DeviceRun> runs;  ///< sequences of numbers of one type, in the order of the bytes
  std::size_t bytes = 0;        ///< total bytes of all runs
  bool has_gaps = false;        ///< true if runs end with padding bytes that do not belong to the payload

  friend bool operator==(const DeviceLayout& a, const DeviceLayout& b) { return a.text == b.text; }
};

/// An interface that packs payloads into bytes of device memory and unpacks them. The threads of all
/// workers may call it. It never gets a null payload. A function that fails throws an exception.
class DeviceCodec {
 public:
  DeviceCodec() = default;
  DeviceCodec(const DeviceCodec&) = delete;
  DeviceCodec& operator=(const DeviceCodec&) = delete;
  virtual ~DeviceCodec() = default;

  virtual DeviceLayout layout_of(const PayloadContent& content) const = 0;
  /// Returns the layout that belongs to `text`, the DeviceLayout::text that another process has sent.
  virtual DeviceLayout layout_of_text(const std::string& text) const = 0;
  /// Enqueues copies of the content into the memory at `to`, on `stream`. This memory must have at least as
  /// many bytes as the layout, and may be on any device. The content must exist until the copies have
  /// ended.
  virtual void pack(const PayloadContent& content, void* to, const StreamView& stream) const = 0;
  /// Allocates a payload on the stream's device, and enqueues copies of the packed bytes into it on `stream`.
  virtual Payload unpack(const DeviceLayout& layout, const void* from, const StreamView& stream) const = 0;
};

}  // namespace penstock
