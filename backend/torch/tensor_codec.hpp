#pragma once
// Encodes tensors that are sent between processes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/executor/payload.hpp"
#include "backend/torch/layer.hpp"

namespace penstock::nn {

/// A codec for TensorPayload, with at most 255 dimensions for each tensor. Decoded tensors are on the CPU.
/// Throws if the bytes are not of this form, before it reserves more memory than the bytes take.
class TensorCodec : public PayloadCodec {
 public:
  /// Returns the size of the encoded tensors.
  static std::size_t bytes_of(const Tensors& tensors);

  std::vector<std::uint8_t> encode(const PayloadContent& content) const override;
  Payload decode(std::span<const std::uint8_t> bytes) const override;
};

}  // namespace penstock::nn
