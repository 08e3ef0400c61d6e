#pragma once
// The seam through which transports between GPUs move what a family of stage modules sends: they see bytes of
// device memory and how these lie.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "backend/executor/payload.hpp"

namespace penstock {

/// Numbers that lie behind each other, for sums.
enum class DeviceNumber : std::uint8_t { float64, float32, float16, bfloat16, other };
struct DeviceRun {
  DeviceNumber type = DeviceNumber::other;
  std::size_t bytes = 0;
};

/// How a payload lies when packed.
struct DeviceLayout {
  std::string text;             ///< what unpack() needs to know
  std::vector<DeviceRun> runs;  ///< one behind the other
  std::size_t bytes = 0;        ///< of all runs
  bool has_gaps = false;        ///< runs end with bytes that are no numbers of the payload

  friend bool operator==(const DeviceLayout& a, const DeviceLayout& b) { return a.text == b.text; }
};

/// Packs and unpacks. Calls may come from any worker's thread; null payloads are not shown to it; failures
/// are exceptions.
class DeviceCodec {
 public:
  DeviceCodec() = default;
  DeviceCodec(const DeviceCodec&) = delete;
  DeviceCodec& operator=(const DeviceCodec&) = delete;
  virtual ~DeviceCodec() = default;

  virtual DeviceLayout layout_of(const PayloadContent& content) const = 0;
  /// From DeviceLayout::text of another process.
  virtual DeviceLayout layout_of_text(const std::string& text) const = 0;
  /// Gives `stream` copies into `to`, which has room for the layout's bytes on any device. The content must
  /// live until they have ended.
  virtual void pack(const PayloadContent& content, void* to, const StreamView& stream) const = 0;
  /// New memory of the stream's device, and copies into it on `stream`.
  virtual Payload unpack(const DeviceLayout& layout, const void* from, const StreamView& stream) const = 0;
};

}  // namespace penstock
