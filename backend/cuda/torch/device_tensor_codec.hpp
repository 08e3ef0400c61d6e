#pragma once
// Packs payloads, which are lists of tensors, into blocks of bytes for transports between GPUs.

#include <string>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"

namespace penstock::nn {

/// A codec for a TensorPayload with CUDA tensors. The text of a layout has one part for each tensor,
/// "type:size,size;type:...". Example: "6:4,8;6:8".
class DeviceTensorCodec : public DeviceCodec {
 public:
  DeviceLayout layout_of(const PayloadContent& content) const override;
  DeviceLayout layout_of_text(const std::string& text) const override;
  void pack(const PayloadContent& content, void* to, const StreamView& stream) const override;
  Payload unpack(const DeviceLayout& layout, const void* from, const StreamView& stream) const override;
};

}  // namespace penstock::nn
