// What is said of devices that are not known: the one that was meant, a relative, or how to write one's own.

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/read/device_names.hpp"

namespace penstock {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST(DeviceNames, WhatNvidiaSmiPrintsIsTheDevice) {
  EXPECT_EQ(
      unknown_device("NVIDIA H100 80GB HBM3"),
      "expected one of a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, got \"NVIDIA H100 80GB "
      "HBM3\"; did you mean h100-sxm?");
  EXPECT_THAT(unknown_device("NVIDIA H200"), EndsWith("; did you mean h200-sxm?"));
  EXPECT_THAT(unknown_device("NVIDIA GB200"), EndsWith("; did you mean gb200?"));
  EXPECT_THAT(unknown_device("NVIDIA A100-SXM4-80GB"), EndsWith("; did you mean a100-sxm?"));
  EXPECT_THAT(unknown_device("NVIDIA A100-SXM4-40GB"),
              EndsWith("; did you mean a100-sxm? Write memory: 40 GB beside it"));
  EXPECT_THAT(unknown_device("h100-sxn"), EndsWith("; did you mean h100-sxm?"));
  EXPECT_THAT(unknown_device("h100sxm5"), EndsWith("; did you mean h100-sxm?"));
}

TEST(DeviceNames, ARelativeIsAKnownDeviceWithKeysOfItsOwn) {
  EXPECT_THAT(unknown_device("h800"),
              HasSubstr("; write it as cluster: {device: h100-sxm, nvlink: 200 GB/s}"));
  EXPECT_THAT(unknown_device("NVIDIA A800-SXM4-80GB"), HasSubstr("{device: a100-sxm, nvlink: 200 GB/s}"));
  EXPECT_THAT(unknown_device("h20"), HasSubstr("{device: h100-sxm, flops: 148 TFLOP/s, "));
  EXPECT_THAT(unknown_device("NVIDIA H100 PCIe"),
              HasSubstr("device: h100-sxm with its own flops, memory, memory_bandwidth and nvlink"));
}

TEST(DeviceNames, OtherDevicesGetNoHintButHowToWriteOnesOwn) {
  for (const std::string_view name :
       {"mi300x", "l40s", "910b", "rtx4090", "tpu-v5p", "MI355X", "gaudi3", "h300-sxm", "b100-sxm", ""}) {
    EXPECT_THAT(unknown_device(name), Not(HasSubstr("did you mean"))) << name;
    EXPECT_THAT(
        unknown_device(name),
        HasSubstr("such as device: h100-sxm with flops, memory, memory_bandwidth, nvlink, network and "
                  "kernels"))
        << name;
  }
}

}  // namespace
}  // namespace penstock
