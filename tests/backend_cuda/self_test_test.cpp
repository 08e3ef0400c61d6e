// What `penstock selftest` says.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/devices.hpp"
#include "backend/cuda/self_test.hpp"
#include "tests/backend_cuda/gpu.hpp"

namespace penstock {
namespace {

SelfTest two_gpus() {
  return {.devices = {"A", "B"},
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

TEST(SelfTest, FewerThanTwoGpusAreTooFew) {
  const auto devices = cuda_devices();
  if (devices && devices->size() > 1) GTEST_SKIP() << "this machine has several GPUs";
  const auto test = self_test();
  ASSERT_FALSE(test);
  EXPECT_THAT(test.error(),
              devices ? testing::StartsWith("it needs two GPUs") : testing::StartsWith("no GPU can be used"));
}

TEST(SelfTest, SeveralGpusExchangeTheRightNumbers) {
  const auto devices = cuda_devices();
  if (!devices) GTEST_SKIP() << devices.error();
  if (devices->size() < 2) GTEST_SKIP() << "one GPU";
  const auto test = self_test();
  ASSERT_TRUE(test) << test.error();
  EXPECT_TRUE(test->all_right()) << to_text(*test);
}

}  // namespace
}  // namespace penstock
