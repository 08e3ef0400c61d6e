// The sum of parts and the largest of them, as messages name it.

#include "scenarios/pricing/part_sum.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(PartSum, NamesWhatComesToMostInAll) {
  PartSum sum;
  sum.add("{}F", 0, 3e9, 2);
  sum.add("{}B", 7, 1e9, 20);
  sum.add("a launch", 0, 1e9, 20);
  EXPECT_EQ(sum.longest(), "7B takes 1 s, 20 times") << "the first of equal ones";
  EXPECT_EQ(sum.largest(), "7B has 1e+09 bytes, 20 times");
  EXPECT_EQ(sum.sum(), 46e9);
  EXPECT_EQ(sum.most(), 20e9);
  sum.add("kept of stage {}", 2, 5e18, 1);
  EXPECT_EQ(sum.largest(), "kept of stage 2 has 5e+18 bytes") << "once";
}

TEST(PartSum, WhatIsNoNumberFitsNowhere) {
  PartSum sum;
  sum.add("{}F", 0, std::numeric_limits<double>::quiet_NaN(), 1);
  sum.add("{}B", 0, 1e9, 1);
  EXPECT_FALSE(sum.sum() < 1e18);
  EXPECT_FALSE(sum.most() < 1e18);
  EXPECT_EQ(sum.longest(), "0F takes nan s");
}

}  // namespace
}  // namespace penstock
