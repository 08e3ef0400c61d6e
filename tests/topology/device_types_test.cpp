// Accelerators by name.

#include <gtest/gtest.h>

#include "topology/device_types.hpp"

namespace penstock {
namespace {

TEST(DeviceTypes, AreFoundHoweverTheyAreSpelt) {
  for (const char* name : {"h100-sxm", "H100-SXM", "h100_sxm", "h100"}) {
    const DeviceType* type = find_device_type(name);
    ASSERT_NE(type, nullptr) << name;
    EXPECT_EQ(type->name, "h100-sxm");
  }
  EXPECT_EQ(find_device_type("gb300")->nvlink_devices, 72);
  EXPECT_EQ(find_device_type("h900"), nullptr);
  EXPECT_EQ(find_device_type(""), nullptr);
}

TEST(DeviceTypes, LaterOnesAreNoWorse) {
  double before = 0;
  for (const char* name : {"a100-sxm", "h100-sxm", "b200-sxm", "gb200"}) {
    EXPECT_GT(find_device_type(name)->bf16_flops_per_second, before) << name;
    before = find_device_type(name)->bf16_flops_per_second;
  }
}

TEST(DeviceTypes, NarrowValuesAreFaster) {
  for (const DeviceType& type : device_types()) {
    SCOPED_TRACE(type.name);
    if (type.fp8_flops_per_second > 0) {
      EXPECT_GT(type.fp8_flops_per_second, type.bf16_flops_per_second);
    }
    if (type.fp4_flops_per_second > 0) {
      EXPECT_GT(type.fp4_flops_per_second, type.fp8_flops_per_second);
    }
    EXPECT_GT(type.memory_bytes, std::int64_t{1} << 36);
  }
}

// The total that nvidia-smi prints, less the 3 GiB that a run takes beside its allocator.
TEST(DeviceTypes, LeaveWhatTheDriverGivesLessThreeGibibytes) {
  const auto usable_mebibytes = [](const char* name) {
    return *find_device_type(name)->usable_memory() >> 20;
  };
  EXPECT_EQ(usable_mebibytes("a100"), 81920 - 3072);
  EXPECT_EQ(usable_mebibytes("h100"), 81559 - 3072);
  EXPECT_EQ(usable_mebibytes("h200"), 143771 - 3072);
  EXPECT_EQ(usable_mebibytes("b200"), 183359 - 3072);
  for (const DeviceType& type : device_types()) {
    SCOPED_TRACE(type.name);
    EXPECT_GE(type.reserved_bytes, kReservedBesideAllocator);
    EXPECT_LT(type.reserved_bytes, kReservedBesideAllocator + (std::int64_t{1} << 30));
  }
}

TEST(DeviceTypes, HaveNoLimitWithoutAMemory) {
  DeviceType device = *find_device_type("h100");
  device.memory_bytes = 0;
  EXPECT_EQ(device.usable_memory(), std::nullopt);
  device.memory_bytes = 1;
  EXPECT_EQ(device.usable_memory(), 0) << "and never a negative one";
}

}  // namespace
}  // namespace penstock
