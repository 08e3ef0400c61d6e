#pragma once
// The interface between GPU transports and the payloads of stage modules. A transport sees only bytes of
// device memory and their layout.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "backend/executor/payload.hpp"

namespace penstock {

/// The type of the numbers in a packed payload. A transport that sums payloads needs it.
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

/// Packs and unpacks payloads. Any worker's thread may call it. The transport passes it no null payloads. A
/// function that fails throws an exception.
class DeviceCodec {
 public:
  DeviceCodec() = default;
  DeviceCodec(const DeviceCodec&) = delete;
  DeviceCodec& operator=(const DeviceCodec&) = delete;
  virtual ~DeviceCodec() = default;

  virtual DeviceLayout layout_of(const PayloadContent& content) const = 0;
  /// Returns the layout for a DeviceLayout::text that another process has sent.
  virtual DeviceLayout layout_of_text(const std::string& text) const = 0;
  /// Enqueues on `stream` the copies of the content into `to`. `to` must have room for the layout's bytes and
  /// may be on any device. The content must exist until the copies have ended.
  virtual void pack(const PayloadContent& content, void* to, const StreamView& stream) const = 0;
  /// Allocates a payload on the stream's device, and enqueues on `stream` the copies of the packed bytes into
  /// it.
  virtual Payload unpack(const DeviceLayout& layout, const void* from, const StreamView& stream) const = 0;
};

}  // namespace penstock
