// Type, sizes and elements of each tensor in CBOR (RFC 8949): a form that says where it ends, so that a
// message that was cut short is an error and not a tensor of garbage.

#include "backend/torch/tensor_codec.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include "backend/executor/payload.hpp"
#include "backend/torch/layer.hpp"
#include "backend/torch/torch_stage.hpp"

namespace penstock::nn {

using nlohmann::json;

std::size_t TensorCodec::most_bytes_of(const Tensors& tensors) {
  constexpr std::size_t kNumber = 9;  // or a length: a byte that says what it is, and eight
  std::size_t most = kNumber;
  for (const at::Tensor& tensor : tensors) {
    const auto numbers =
        static_cast<std::size_t>(tensor.dim()) + 4;  // lengths: item, sizes, elements; its type
    most += numbers * kNumber + tensor.nbytes();
  }
  return most;
}

std::vector<std::uint8_t> TensorCodec::encode(const PayloadContent& content) const {
  json list = json::array();
  for (const at::Tensor& given : dynamic_cast<const TensorPayload&>(content).tensors) {
    const at::Tensor tensor = given.contiguous().cpu();
    const auto* begin = static_cast<const std::uint8_t*>(tensor.const_data_ptr());
    list.push_back({static_cast<int>(tensor.scalar_type()), tensor.sizes().vec(),
                    json::binary(std::vector<std::uint8_t>(begin, begin + tensor.nbytes()))});
  }
  return json::to_cbor(list);
}

Payload TensorCodec::decode(std::span<const std::uint8_t> bytes) const {
  Tensors tensors;
  for (const json& item : json::from_cbor(bytes)) {
    const auto sizes = item.at(1).get<std::vector<std::int64_t>>();
    const auto& elements = item.at(2).get_binary();
    at::Tensor tensor = at::empty(sizes, static_cast<at::ScalarType>(item.at(0).get<int>()));
    if (tensor.nbytes() != elements.size())
      throw std::runtime_error("a tensor came with too few or too many bytes");
    std::memcpy(tensor.mutable_data_ptr(), elements.data(), elements.size());
    tensors.push_back(std::move(tensor));
  }
  return std::make_unique<TensorPayload>(std::move(tensors));
}

}  // namespace penstock::nn
