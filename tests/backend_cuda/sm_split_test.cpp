// How SMs are shared out among workers.

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cuda/sm_split.hpp"
#include "backend/cuda/workers.hpp"

namespace penstock {
namespace {

constexpr SmRules kHopper = {.total = 132, .least = 8, .alignment = 8};

std::string refusal(const SmRules& rules, std::int32_t workers) {
  const auto split = split_sms(rules, workers);
  return split ? "accepted" : split.error();
}

TEST(SmSplit, PartsAreEqualMultiplesOfTheAlignment) {
  using Row = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // workers, SMs each, spare
  for (const auto& [workers, each, spare] : std::vector<Row>{
           {1, 128, 4}, {2, 64, 4}, {3, 40, 12}, {4, 32, 4}, {5, 24, 12}, {8, 16, 4}, {16, 8, 4}}) {
    const auto split = split_sms(kHopper, workers);
    ASSERT_TRUE(split) << split.error();
    EXPECT_EQ(*split, (SmSplit{.workers = workers, .sms_each = each, .spare = spare})) << workers;
  }
}

TEST(SmSplit, APartIsNeverSmallerThanTheDeviceAllows) {
  const SmRules ampere = {.total = 108, .least = 4, .alignment = 2};
  EXPECT_EQ(split_sms(ampere, 27)->sms_each, 4);
  EXPECT_EQ(refusal(ampere, 28),
            "28 workers do not fit on a GPU of 108 SMs, whose partitions have 4 or more and a multiple of 2: "
            "take at most 27, or as many GPUs as workers");
  const SmRules uneven = {.total = 20, .least = 5, .alignment = 4};  // so that the least is 8
  EXPECT_EQ(split_sms(uneven, 2)->sms_each, 8);
  EXPECT_NE(refusal(uneven, 3), "accepted");
}

TEST(SmSplit, TooManyWorkersAreRefusedWithTheMostThatFit) {
  EXPECT_EQ(refusal(kHopper, 17),
            "17 workers do not fit on a GPU of 132 SMs, whose partitions have 8 or more and a multiple of 8: "
            "take at most 16, or as many GPUs as workers");
  EXPECT_NE(refusal(kHopper, 0), "accepted");
}

TEST(SmSplit, ASharedSmIsNamed) {
  EXPECT_EQ(shared_sm({{0, 1}, {2, 3}, {4}}), "");
  EXPECT_EQ(shared_sm({{0, 1, 17}, {2, 3}, {4, 17}}), "partitions 0 and 2 both ran on SM 17");
  EXPECT_EQ(shared_sm({{5, 5}}), "") << "the same partition twice";
}

}  // namespace
}  // namespace penstock
