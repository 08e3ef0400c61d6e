// How long bytes hold a link: exact where the quotient is whole, else the next whole nanosecond.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "topology/cluster.hpp"

namespace penstock {
namespace {

constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
constexpr double kGiBPerSecond = 1024.0 * 1024.0 * 1024.0;

TEST(Serialization, IsExactWhereTheQuotientIsWhole) {
  EXPECT_EQ(serialization_ns(std::int64_t{16} << 20, 50 * kGiBPerSecond), 312'500);
  EXPECT_EQ(serialization_ns(1000, 1e9), 1000);
  EXPECT_EQ(serialization_ns(1, 1e9 / 8), 8);
}

TEST(Serialization, RoundsUpToAWholeNanosecond) {
  EXPECT_EQ(serialization_ns(1, 2e9), 1);
  EXPECT_EQ(serialization_ns(3, 2e9), 2);
  EXPECT_EQ(serialization_ns(1, 1e14), 1);
  EXPECT_EQ(serialization_ns(10, 3e9), 4);
}

TEST(Serialization, DoesNotCountAnErrorOfTheDivision) {
  // A third of 1 GB/s is no double; three nanoseconds a byte must not become four.
  EXPECT_EQ(serialization_ns(1, 1e9 / 3), 3);
  EXPECT_EQ(serialization_ns(7'000'000, 1e9 / 3), 21'000'000);
  for (std::int64_t parts = 1; parts <= 1000; ++parts) {
    EXPECT_EQ(serialization_ns(1'000'000, 1e9 / static_cast<double>(parts)), parts * 1'000'000) << parts;
  }
}

TEST(Serialization, CountsWhatIsMoreThanAnError) {
  EXPECT_EQ(serialization_ns(10'000'020, 1e16), 2);  // 2e-6 ns over
  EXPECT_EQ(serialization_ns(10'000'001, 1e16), 1);  // 1e-7 ns over
}

TEST(Serialization, OfNothingOrOnAnUnlimitedLinkIsZero) {
  EXPECT_EQ(serialization_ns(0, 1), 0);
  EXPECT_EQ(serialization_ns(0, kUnlimitedBandwidth), 0);
  EXPECT_EQ(serialization_ns(kLargest, kUnlimitedBandwidth), 0);
}

TEST(Serialization, SaturatesInsteadOfOverflowing) {
  EXPECT_EQ(serialization_ns(kLargest, 1), kLargest);
  EXPECT_EQ(serialization_ns(1, 1e-300), kLargest);
  EXPECT_EQ(serialization_ns(std::int64_t{1} << 62, 1e9), std::int64_t{1} << 62);
}

}  // namespace
}  // namespace penstock
