#pragma once
// Tensors on their way between processes.

#include <cstdint>
#include <span>
#include <vector>

#include "backend/executor/payload.hpp"

namespace penstock::nn {

/// Of TensorPayloads, in CBOR (RFC 8949): a list of [type, sizes, elements], the elements row by row in the
/// host's byte order. Tensors come out on the CPU. Throws on bytes that are none of its own.
class TensorCodec : public PayloadCodec {
 public:
  std::vector<std::uint8_t> encode(const PayloadContent& content) const override;
  Payload decode(std::span<const std::uint8_t> bytes) const override;
};

}  // namespace penstock::nn
