#pragma once
// Tensors on their way between processes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/executor/payload.hpp"
#include "backend/torch/layer.hpp"

namespace penstock::nn {

/// Of TensorPayloads, at most 255 dimensions each. Tensors come out on the CPU. Throws on bytes that are none
/// of its own, before it takes more memory than they have.
class TensorCodec : public PayloadCodec {
 public:
  /// So many bytes once they are encoded.
  static std::size_t bytes_of(const Tensors& tensors);

  std::vector<std::uint8_t> encode(const PayloadContent& content) const override;
  Payload decode(std::span<const std::uint8_t> bytes) const override;
};

}  // namespace penstock::nn
