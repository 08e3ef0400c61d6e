// Tests the layout of tensors in messages between GPUs.

#include <memory>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/torch/device_tensor_codec.hpp"
#include "backend/torch/torch_stage.hpp"
#include "tests/backend_cuda/gpu.hpp"

namespace penstock::nn {
namespace {

TEST(DeviceTensorCodec, TheLayoutSaysTypesSizesAndBytes) {
  const TensorPayload payload(
      {at::zeros({4, 8}, at::kFloat), at::zeros({3}, at::kDouble), at::zeros({}, at::kLong)});
  const DeviceLayout layout = DeviceTensorCodec().layout_of(payload);
  EXPECT_EQ(layout.text, "6:4,8;7:3;4:");
  ASSERT_EQ(layout.runs.size(), 3U);
  EXPECT_EQ(layout.runs[0].type, DeviceNumber::float32);
  EXPECT_EQ(layout.runs[0].bytes, 256U) << "128, padded";
  EXPECT_EQ(layout.runs[1].type, DeviceNumber::float64);
  EXPECT_EQ(layout.runs[2].type, DeviceNumber::other);
  EXPECT_EQ(layout.bytes, 768U);
}

TEST(DeviceTensorCodec, TheTextOfALayoutIsEnough) {
  for (const char* text : {"6:4,8;7:3;4:", "7:1000,3", "15:2,2,2", "6:0", ""}) {
    const DeviceLayout layout = DeviceTensorCodec().layout_of_text(text);
    EXPECT_EQ(layout.text, text);
  }
  EXPECT_EQ(DeviceTensorCodec().layout_of_text("7:1000,3").bytes, 24064U);
  EXPECT_THROW(DeviceTensorCodec().layout_of_text("seven:3"), std::runtime_error);
  EXPECT_THROW(DeviceTensorCodec().layout_of_text("7:3,-1"), std::runtime_error);
}

TEST(DeviceTensorCodec, WhatIsPackedComesOutAgain) {
  PENSTOCK_NEEDS_GPU();
  const CudaStream stream(0, CudaStream::Priority::normal);
  const at::Tensor counted = at::arange(24, at::kDouble).view({4, 6}).cuda();
  // The first tensor is not contiguous.
  TensorPayload payload({counted.t(), at::arange(5, at::kLong).cuda()});
  const DeviceTensorCodec codec;
  const DeviceLayout layout = codec.layout_of(payload);
  const DeviceBuffer packed(0, layout.bytes);
  codec.pack(payload, packed.data(), stream.view());
  const Payload unpacked = codec.unpack(layout, packed.data(), stream.view());
  wait_for(stream.view(), {});
  const auto& tensors = dynamic_cast<const TensorPayload&>(*unpacked).tensors;
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_TRUE(at::equal(tensors[0], payload.tensors[0]));
  EXPECT_TRUE(at::equal(tensors[1], payload.tensors[1]));
}

}  // namespace
}  // namespace penstock::nn
