// What a failure of CUDA says.

#include <string>

#include <driver_types.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/devices.hpp"
#include "backend/cuda/green_contexts.hpp"
#include "tests/backend_cuda/gpu.hpp"

namespace penstock {
namespace {

TEST(CudaError, NamesTheCallTheCodeAndTheMeaning) {
  EXPECT_NO_THROW(check_cuda(cudaSuccess, "cudaMalloc"));
  try {
    check_cuda(cudaErrorMemoryAllocation, "cudaMalloc");
    FAIL() << "not thrown";
  } catch (const CudaError& error) {
    EXPECT_STREQ(error.what(), "cudaMalloc: cudaErrorMemoryAllocation (2): out of memory");
    EXPECT_EQ(error.code(), 2);
    EXPECT_EQ(error.call(), "cudaMalloc");
  }
}

TEST(CudaDevices, WithoutAGpuTheReasonIsTheDrivers) {
  PENSTOCK_NEEDS_NO_GPU();
  const auto devices = cuda_devices();
  EXPECT_THAT(devices.error(), testing::StartsWith("no GPU can be used: cudaGetDeviceCount: cudaError"));
}

TEST(CudaDevices, AChildCountsTheSameDevices) {
  // First the child: this process must not have started CUDA when it forks.
  const auto count = cuda_device_count_by_child();
  const auto devices = cuda_devices();
  ASSERT_EQ(count.has_value(), devices.has_value());
  if (count) {
    EXPECT_EQ(*count, static_cast<std::int32_t>(devices->size()));
  } else {
    EXPECT_EQ(count.error(), devices.error());
  }
}

TEST(GreenContexts, WithoutADriverTheMissingFunctionIsNamed) {
  PENSTOCK_NEEDS_NO_GPU();
  const auto rules = sm_rules_of(0);
  ASSERT_FALSE(rules);
  EXPECT_THAT(rules.error(), testing::HasSubstr("cuDeviceGetDevResource"));
}

}  // namespace
}  // namespace penstock
