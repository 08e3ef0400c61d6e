// Encodes tensors in the host's byte order:
//
//     how many: u32 | of each   type: u8 | dimensions: u8 | sizes: i64 ... | elements, row by row
//
// The content itself determines where the message ends. Every length is compared with the number of remaining
// bytes before memory is allocated. A message that is too short or wrong is therefore reported as an error.

#include "backend/torch/torch_stage.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include "backend/executor/transport.hpp"
#include "backend/torch/layers.hpp"

namespace penstock::nn {
namespace {

using Message = std::span<const std::uint8_t>;

void require(bool holds) {
  if (!holds) throw std::runtime_error("a message of tensors was cut short, or holds something else");
}

Message take(Message& rest, std::size_t size) {
  require(size <= rest.size());
  const Message taken = rest.first(size);
  rest = rest.subspan(size);
  return taken;
}

template <typename Number>
  requires std::is_trivially_copyable_v<Number>
Number take_number(Message& rest) {
  Number number{};
  std::memcpy(&number, take(rest, sizeof number).data(), sizeof number);
  return number;
}

template <typename Number>
  requires std::is_trivially_copyable_v<Number>
void put(std::vector<std::uint8_t>& bytes, Number number) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(&number);
  bytes.insert(bytes.end(), begin, begin + sizeof number);
}

at::ScalarType take_type(Message& rest) {
  const auto type = take_number<std::uint8_t>(rest);
  require(type < static_cast<std::uint8_t>(at::ScalarType::Undefined));
  return static_cast<at::ScalarType>(type);
}

/// Returns the number of bytes of a tensor's elements, for this type and these sizes. Throws if the number
/// is larger than `most`.
std::size_t element_bytes(at::ScalarType type, const std::vector<std::int64_t>& sizes, std::size_t most) {
  std::size_t bytes = c10::elementSize(type);
  for (const std::int64_t size : sizes) {
    require(size >= 0 && (size == 0 || bytes <= most / static_cast<std::size_t>(size)));
    bytes *= static_cast<std::size_t>(size);
  }
  return bytes;
}

at::Tensor take_tensor(Message& rest) {
  const at::ScalarType type = take_type(rest);
  std::vector<std::int64_t> sizes(take_number<std::uint8_t>(rest));
  for (std::int64_t& size : sizes) size = take_number<std::int64_t>(rest);
  const Message elements = take(rest, element_bytes(type, sizes, rest.size()));
  at::Tensor tensor = at::empty(sizes, type);
  if (!elements.empty()) std::memcpy(tensor.mutable_data_ptr(), elements.data(), elements.size());
  return tensor;
}

/// Returns the number of bytes that encode the tensor's type, number of dimensions and sizes.
std::size_t head_bytes(const at::Tensor& tensor) {
  return 2 + static_cast<std::size_t>(tensor.dim()) * sizeof(std::int64_t);
}

}  // namespace

std::size_t TensorCodec::bytes_of(const Tensors& tensors) {
  std::size_t bytes = sizeof(std::uint32_t);
  for (const at::Tensor& tensor : tensors) bytes += head_bytes(tensor) + tensor.nbytes();
  return bytes;
}

std::vector<std::uint8_t> TensorCodec::encode(const PayloadContent& content) const {
  const Tensors& tensors = dynamic_cast<const TensorPayload&>(content).tensors;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(bytes_of(tensors));
  put(bytes, static_cast<std::uint32_t>(tensors.size()));
  for (const at::Tensor& given : tensors) {
    const at::Tensor tensor = given.contiguous().cpu();
    put(bytes, static_cast<std::uint8_t>(tensor.scalar_type()));
    put(bytes, static_cast<std::uint8_t>(tensor.dim()));
    for (const std::int64_t size : tensor.sizes()) put(bytes, size);
    const auto* begin = static_cast<const std::uint8_t*>(tensor.const_data_ptr());
    bytes.insert(bytes.end(), begin, begin + tensor.nbytes());
  }
  return bytes;
}

Payload TensorCodec::decode(std::span<const std::uint8_t> bytes) const {
  Tensors tensors;
  for (auto count = take_number<std::uint32_t>(bytes); count > 0; --count)
    tensors.push_back(take_tensor(bytes));
  require(bytes.empty());
  return std::make_unique<TensorPayload>(std::move(tensors));
}

}  // namespace penstock::nn
