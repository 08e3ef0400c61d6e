#pragma once
// Tensors on their way between processes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/executor/payload.hpp"
#include "backend/torch/layer.hpp"

namespace penstock::nn {

/// Of TensorPayloads, in CBOR (RFC 8949): a list of [type, sizes, elements], the elements row by row in the
/// host's byte order. Tensors come out on the CPU. Throws on bytes that are none of its own.
class TensorCodec : public PayloadCodec {
 public:
  /// At most so many bytes once they are encoded.
  static std::size_t most_bytes_of(const Tensors& tensors);

  std::vector<std::uint8_t> encode(const PayloadContent& content) const override;
  Payload decode(std::span<const std::uint8_t> bytes) const override;
};

}  // namespace penstock::nn
