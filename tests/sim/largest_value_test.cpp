// The search for the largest value that fits, against trying every value.

#include "sim/planning/largest_value.hpp"

#include <cstdint>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// A value that needs as many bytes as it says, of 100.
TriedValue needs(std::int64_t value, Bytes bytes) {
  TriedValue tried{.value = value};
  tried.peak_bytes = bytes;
  tried.usable_bytes = 100;
  return tried;
}

TriedValue refused(std::int64_t value) { return {.value = value, .refusal = "no"}; }

TEST(LargestValue, IsWhatTryingEveryValueFinds) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto least = static_cast<std::int64_t>(random() % 5 + 1);
    const ValueRange range{.least = least,
                           .most = least + static_cast<std::int64_t>(random() % 60),
                           .step = static_cast<std::int64_t>(random() % 3 + 1)};
    const auto first = static_cast<std::int64_t>(random() % 30);
    const auto slope = static_cast<Bytes>(random() % 20 + 1);
    std::set<std::int64_t> tried;
    const auto probe = [&](std::int64_t value) {
      EXPECT_TRUE(tried.insert(value).second) << "tried twice";
      return value < first ? refused(value) : needs(value, slope * value);
    };
    std::optional<std::int64_t> expected;
    for (std::int64_t value = range.least; value <= range.most; value += range.step)
      if (value >= first && slope * value <= 100) expected = value;
    const LargestValue found = largest_value(range, probe);
    ASSERT_EQ(found.largest.has_value(), expected.has_value()) << round;
    if (expected) {
      EXPECT_EQ(found.largest->value, *expected) << round;
      if (found.next) {
        EXPECT_EQ(found.next->value, *expected + range.step) << round;
      }
    }
    EXPECT_TRUE(found.grows());
  }
}

TEST(LargestValue, TriesFewOfAMillionValues) {
  int tried = 0;
  const LargestValue found = largest_value({.least = 1, .most = 1'000'000}, [&](std::int64_t value) {
    ++tried;
    return needs(value, value > 765'432 ? 101 : 1);
  });
  EXPECT_EQ(found.largest->value, 765'432);
  EXPECT_LE(tried, 42);
}

TEST(LargestValue, HasNoNextValueWhereTheWholeRangeFits) {
  const LargestValue found =
      largest_value({.least = 3, .most = 50, .step = 10}, [](std::int64_t value) { return needs(value, 1); });
  EXPECT_EQ(found.largest->value, 43);
  EXPECT_FALSE(found.next);
}

TEST(LargestValue, IsAbsentWhereTheSmallestDoesNotFit) {
  const LargestValue found =
      largest_value({.least = 1, .most = 50}, [](std::int64_t value) { return needs(value, 200); });
  EXPECT_FALSE(found.largest);
  EXPECT_EQ(found.next->value, 1);
}

TEST(LargestValue, IsAbsentWhereEveryValueIsRefused) {
  const LargestValue found = largest_value({.least = 1, .most = 50}, refused);
  EXPECT_FALSE(found.largest);
  EXPECT_EQ(found.next->refusal, "no");
}

TEST(LargestValue, EndsAtARefusalAboveWhatFits) {
  const LargestValue found = largest_value({.least = 1, .most = 500}, [](std::int64_t value) {
    return value > 80 ? refused(value) : needs(value, 1);
  });
  EXPECT_EQ(found.largest->value, 80);
  EXPECT_EQ(found.next->refusal, "no");
}

TEST(LargestValue, SaysThatMemoryDidNotGrow) {
  const LargestValue found = largest_value(
      {.least = 1, .most = 64}, [](std::int64_t value) { return needs(value, value == 4 ? 90 : value); });
  EXPECT_FALSE(found.grows());
}

}  // namespace
}  // namespace penstock
