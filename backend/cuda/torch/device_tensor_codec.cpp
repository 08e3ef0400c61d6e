// Packs the tensors of a payload into one block of bytes by copies on the device. A text
// "type:size,size;..." describes their shapes, and a transport sends it only once. Each tensor begins at a
// multiple of 256 bytes, so that tensors of all types are aligned.

#include "backend/cuda/torch/device_tensor_codec.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorOptions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <driver_types.h>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/transport.hpp"
#include "backend/torch/layers.hpp"
#include "backend/torch/torch_stage.hpp"
#include "text/numbers.hpp"

namespace penstock::nn {
namespace {

constexpr std::size_t kAlignment = 256;  // alignment in bytes of each tensor in the packed block

/// The type and sizes of a tensor, which unpack() needs.
struct Shape {
  at::ScalarType type = at::kDouble;
  std::vector<std::int64_t> sizes;
};

std::size_t bytes_of(const Shape& shape) {
  std::size_t elements = 1;
  for (const std::int64_t size : shape.sizes) elements *= static_cast<std::size_t>(size);
  return elements * c10::elementSize(shape.type);
}

std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

DeviceNumber number_of(at::ScalarType type) {
  if (type == at::kDouble) return DeviceNumber::float64;
  if (type == at::kFloat) return DeviceNumber::float32;
  if (type == at::kHalf) return DeviceNumber::float16;
  if (type == at::kBFloat16) return DeviceNumber::bfloat16;
  return DeviceNumber::other;
}

std::string text_of(const Shape& shape) {
  std::string text = std::to_string(static_cast<int>(shape.type)) + ":";
  for (std::size_t i = 0; i < shape.sizes.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(shape.sizes[i]);
  }
  return text;
}

/// Reads a number from a layout's text, which may come from another process. Throws if the text is not a
/// number, or if the number is negative.
std::int64_t number(std::string_view text) {
  const auto value = number_of_text<std::int64_t>(text);
  if (value && *value >= 0) return *value;
  throw std::runtime_error("a message's layout has \"" + std::string(text) + "\" where a number is wanted");
}

/// Returns the part of `text` before the first `mark`. Removes this part and the mark from `text`.
std::string_view next_piece(std::string_view& text, char mark) {
  const std::size_t end = std::min(text.find(mark), text.size());
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

Shape shape_of(std::string_view text) {
  Shape shape{.type = static_cast<at::ScalarType>(number(next_piece(text, ':'))), .sizes = {}};
  while (!text.empty()) shape.sizes.push_back(number(next_piece(text, ',')));
  return shape;
}

std::vector<Shape> shapes_of(std::string_view text) {
  std::vector<Shape> shapes;
  while (!text.empty()) shapes.push_back(shape_of(next_piece(text, ';')));
  return shapes;
}

DeviceLayout layout_of_shapes(const std::vector<Shape>& shapes) {
  DeviceLayout layout;
  for (const Shape& shape : shapes) {
    if (!layout.text.empty()) layout.text += ';';
    layout.text += text_of(shape);
    layout.runs.push_back({.type = number_of(shape.type), .bytes = padded(bytes_of(shape))});
    layout.bytes += layout.runs.back().bytes;
    layout.has_gaps |= layout.runs.back().bytes != bytes_of(shape);
  }
  return layout;
}

const Tensors& tensors_of(const PayloadContent& content) {
  const auto* payload = dynamic_cast<const TensorPayload*>(&content);
  if (payload == nullptr) throw std::logic_error("a payload that holds no tensors");
  return payload->tensors;
}

c10::cuda::CUDAStream torch_stream(const StreamView& stream) {
  return c10::cuda::getStreamFromExternal(stream.stream, static_cast<c10::DeviceIndex>(stream.device));
}

/// Returns a tensor that refers to packed memory without copying it.
at::Tensor view_of(void* data, const Shape& shape, std::int32_t device) {
  const at::Device where(at::kCUDA, static_cast<c10::DeviceIndex>(device));
  return at::from_blob(data, shape.sizes, at::TensorOptions(shape.type).device(where));
}

/// Returns the number of the device that owns the memory at `data`. A copy between devices needs it.
std::int32_t device_of(const void* data) {
  cudaPointerAttributes facts{};
  check_cuda(cudaPointerGetAttributes(&facts, data), "cudaPointerGetAttributes");
  return facts.device;
}

}  // namespace

DeviceLayout DeviceTensorCodec::layout_of(const PayloadContent& content) const {
  std::vector<Shape> shapes;
  for (const at::Tensor& tensor : tensors_of(content)) {
    shapes.push_back({.type = tensor.scalar_type(), .sizes = tensor.sizes().vec()});
  }
  return layout_of_shapes(shapes);
}

DeviceLayout DeviceTensorCodec::layout_of_text(const std::string& text) const {
  return layout_of_shapes(shapes_of(text));
}

void DeviceTensorCodec::pack(const PayloadContent& content, void* to, const StreamView& stream) const {
  const c10::cuda::CUDAStreamGuard guard(torch_stream(stream));
  auto* next = static_cast<std::uint8_t*>(to);
  for (const at::Tensor& tensor : tensors_of(content)) {
    const Shape shape{.type = tensor.scalar_type(), .sizes = tensor.sizes().vec()};
    if (tensor.numel() > 0) view_of(next, shape, device_of(to)).copy_(tensor, /*non_blocking=*/true);
    next += padded(bytes_of(shape));
  }
}

Payload DeviceTensorCodec::unpack(const DeviceLayout& layout, const void* from,
                                  const StreamView& stream) const {
  const c10::cuda::CUDAStreamGuard guard(torch_stream(stream));
  // The `const` is removed, because LibTorch has no tensors that refer to constant memory.
  auto* next = static_cast<std::uint8_t*>(const_cast<void*>(from));
  Tensors tensors;
  for (const Shape& shape : shapes_of(layout.text)) {
    const at::Device where(at::kCUDA, static_cast<c10::DeviceIndex>(stream.device));
    at::Tensor tensor = at::empty(shape.sizes, at::TensorOptions(shape.type).device(where));
    if (tensor.numel() > 0) tensor.copy_(view_of(next, shape, stream.device), /*non_blocking=*/true);
    tensors.push_back(std::move(tensor));
    next += padded(bytes_of(shape));
  }
  return std::make_unique<TensorPayload>(std::move(tensors));
}

}  // namespace penstock::nn
