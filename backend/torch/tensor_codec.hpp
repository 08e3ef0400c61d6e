#pragma once
// Encodes tensors as bytes to send them to other processes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/executor/transport.hpp"
#include "backend/torch/layers.hpp"

namespace penstock::nn {

/// A codec for TensorPayload. Each tensor may have at most 255 dimensions. Decoded tensors are on the CPU.
/// decode() throws if the bytes are not valid. It never allocates much more memory than `bytes` has.
class TensorCodec : public PayloadCodec {
 public:
  /// Returns the number of bytes that the tensors have when they are encoded.
  static std::size_t bytes_of(const Tensors& tensors);

  std::vector<std::uint8_t> encode(const PayloadContent& content) const override;
  Payload decode(std::span<const std::uint8_t> bytes) const override;
};

}  // namespace penstock::nn
