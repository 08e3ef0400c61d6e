#pragma once
// The interface through which transports between GPUs move the payloads of stage modules. They see bytes of
// device memory and their layout.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "backend/executor/payload.hpp"

namespace penstock {

/// The types of numbers in packed payloads, for sums. A run is a sequence of numbers of one type.
enum class DeviceNumber : std::uint8_t { float64, float32, float16, bfloat16, other };
struct DeviceRun {
  DeviceNumber type = DeviceNumber::other;
  std::size_t bytes = 0;
};

/// The layout of a packed payload.
struct DeviceLayout {
  std::string text;             ///< description that unpack() needs
  std::vector<DeviceRun> runs;  ///< in the order of the bytes
  std::size_t bytes = 0;        ///< total of all runs
  bool has_gaps = false;        ///< runs end with padding that is no number of the payload

  friend bool operator==(const DeviceLayout& a, const DeviceLayout& b) { return a.text == b.text; }
};

/// Packs and unpacks payloads. Any worker's thread may call it. Null payloads are not passed to it. Failures
/// are exceptions.
class DeviceCodec {
 public:
  DeviceCodec() = default;
  DeviceCodec(const DeviceCodec&) = delete;
  DeviceCodec& operator=(const DeviceCodec&) = delete;
  virtual ~DeviceCodec() = default;

  virtual DeviceLayout layout_of(const PayloadContent& content) const = 0;
  /// Reads the layout from a DeviceLayout::text of another process.
  virtual DeviceLayout layout_of_text(const std::string& text) const = 0;
  /// Enqueues copies into `to` on `stream`. `to` must have room for the layout's bytes and may be on any
  /// device. The content must live until the copies have ended.
  virtual void pack(const PayloadContent& content, void* to, const StreamView& stream) const = 0;
  /// Allocates memory on the stream's device and enqueues copies into it on `stream`.
  virtual Payload unpack(const DeviceLayout& layout, const void* from, const StreamView& stream) const = 0;
};

}  // namespace penstock
