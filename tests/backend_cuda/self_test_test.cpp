// Tests the output of `penstock selftest`.

#include <driver_types.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "backend/cuda/self_test.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "tests/backend_cuda/gpu.hpp"

namespace penstock {
namespace {

SelfTest two_gpus() {
  return {.devices = {"A", "B"},
          .checks = {},
          .pairs = {{.from = 0,
                     .to = 1,
                     .direct = true,
                     .ping = {.median_ns = 9'000, .middle_half_ns = 0, .samples = 20},
                     .latency_ns = 8'000,
                     .bytes_per_second = 250e9,
                     .wrong = ""},
                    {.from = 1,
                     .to = 0,
                     .direct = false,
                     .ping = {.median_ns = 20'000, .middle_half_ns = 0, .samples = 20},
                     .latency_ns = 18'000,
                     .bytes_per_second = 12.5e9,
                     .wrong = ""}},
          .ring_ns = 150'000,
          .ring_wrong = ""};
}

TEST(SelfTest, TheTextNamesEveryPairAndItsFit) {
  EXPECT_EQ(to_text(two_gpus()),
            "2 GPUs\n"
            "  0: A\n"
            "  1: B\n"
            "0 -> 1: ping 9.000 us, fit 8.000 us and 250.0 GB/s, direct: right\n"
            "1 -> 0: ping 20.000 us, fit 18.000 us and 12.5 GB/s, through the host: right\n"
            "ring of 2: 150.000 us for 16 MiB around: right\n");
}

TEST(SelfTest, OneWrongNumberIsEnough) {
  EXPECT_TRUE(two_gpus().all_right());
  SelfTest in_pair = two_gpus();
  in_pair.pairs[1].wrong = "number 3 came as 0, was sent as 1003";
  EXPECT_FALSE(in_pair.all_right());
  EXPECT_THAT(to_text(in_pair), testing::HasSubstr("WRONG: number 3 came as 0, was sent as 1003\n"));
  SelfTest in_ring = two_gpus();
  in_ring.ring_wrong = "number 0 came as 1, was sent as 7";
  EXPECT_FALSE(in_ring.all_right());
}

TEST(SelfTest, AWrongFactOfTheDeviceIsEnoughAndAMissingOneIsNot) {
  SelfTest test = two_gpus();
  test.checks = {
      {.name = "timer", .found = "steps of 32 ns"},
      {.name = "2 workers", .found = "the driver is too old", .verdict = DeviceCheck::Verdict::missing}};
  EXPECT_TRUE(test.all_right());
  test.checks[0].verdict = DeviceCheck::Verdict::wrong;
  EXPECT_FALSE(test.all_right());
  EXPECT_THAT(to_text(test), testing::HasSubstr("  1: B\n"
                                                "timer: steps of 32 ns: WRONG\n"
                                                "2 workers: the driver is too old: missing\n"
                                                "0 -> 1: ping"));
}

TEST(SelfTest, OneGpuNamesNoPairsAndNoRing) {
  SelfTest test;
  test.devices = {"A"};
  test.checks = {{.name = "timer", .found = "steps of 32 ns"}};
  EXPECT_EQ(to_text(test),
            "1 GPU\n"
            "  0: A\n"
            "timer: steps of 32 ns: right\n");
}

TEST(SelfTest, WithoutAGpuItSaysWhy) {
  PENSTOCK_NEEDS_NO_GPU();
  EXPECT_THAT(self_test().error(), testing::StartsWith("no GPU can be used"));
}

TEST(SelfTest, TheFactsOfThisGpuAreRight) {
  PENSTOCK_NEEDS_GPU();
  const auto test = self_test();
  ASSERT_TRUE(test) << test.error();
  EXPECT_TRUE(all_right(test->checks)) << to_text(*test);
}

TEST(SelfTest, SeveralGpusExchangeTheRightNumbers) {
  const auto devices = cuda_devices();
  if (!devices) GTEST_SKIP() << devices.error();
  if (devices->size() < 2) GTEST_SKIP() << "one GPU";
  const auto test = self_test();
  ASSERT_TRUE(test) << test.error();
  EXPECT_TRUE(test->all_right()) << to_text(*test);
}

// Tests the text of a CUDA error.

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

std::string words_of(const tl::expected<std::int32_t, std::string>& devices) {
  return devices ? std::to_string(*devices) + " devices" : devices.error();
}

/// Ends the process with 0 if a child and this process count the same devices.
[[noreturn]] void count_twice_and_exit() {
  const std::string by_child =
      words_of(cuda_device_count_by_child().map([](const CudaDeviceCount& count) { return count.devices; }));
  const std::string here = words_of(
      cuda_devices().map([](const auto& devices) { return static_cast<std::int32_t>(devices.size()); }));
  std::cerr << "the child: " << by_child << "; this process: " << here;
  std::exit(by_child == here ? 0 : 1);  // NOLINT(concurrency-mt-unsafe): no other thread runs
}

// A child cannot use CUDA if its parent has started it, and the tests above start it where a GPU is. A death
// test in the thread-safe style runs its statement in a new process of this program.
TEST(CudaDevices, AChildCountsTheSameDevices) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(count_twice_and_exit(), testing::ExitedWithCode(0), "the child: .+; this process: .+");
}

TEST(GreenContexts, WithoutADriverTheMissingFunctionIsNamed) {
  PENSTOCK_NEEDS_NO_GPU();
  const auto rules = sm_rules_of(0);
  ASSERT_FALSE(rules);
  EXPECT_THAT(rules.error(), testing::HasSubstr("cuDeviceGetDevResource"));
}

}  // namespace
}  // namespace penstock
