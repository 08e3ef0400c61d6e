// Tests how flags become numbers and scenarios. flag_values_test.cpp tests invalid values for every flag.

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/flags.hpp"
#include "cli/input.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::int32_t> numbers(const std::string& text) {
  const auto list = parse_number_list(text);
  EXPECT_TRUE(list) << list.error();
  return list.value_or(std::vector<std::int32_t>{});
}

std::string fault(const std::string& text) {
  const auto list = parse_number_list(text);
  EXPECT_FALSE(list) << "\"" << text << "\" was taken";
  return list ? "" : list.error();
}

TEST(NumberList, IsOneNumber) { EXPECT_THAT(numbers("7"), ElementsAre(7)); }

TEST(NumberList, IsSeveralNumbersInAscendingOrderEachOnce) {
  EXPECT_THAT(numbers("8,2,8,4"), ElementsAre(2, 4, 8));
}

TEST(NumberList, CountsByOneAfterOneNumber) {
  EXPECT_THAT(numbers("1..4"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(numbers("5..5"), ElementsAre(5));
}

TEST(NumberList, GoesOnByTheRatioOfThreeNumbers) {
  EXPECT_THAT(numbers("1,2,4..32"), ElementsAre(1, 2, 4, 8, 16, 32));
  EXPECT_THAT(numbers("2,6,18..200"), ElementsAre(2, 6, 18, 54, 162));
}

TEST(NumberList, GoesOnByTheDifferenceOfTwoNumbers) {
  EXPECT_THAT(numbers("1,3..9"), ElementsAre(1, 3, 5, 7, 9));
  EXPECT_THAT(numbers("2,4..10"), ElementsAre(2, 4, 6, 8, 10));
}

TEST(NumberList, GoesOnByTheDifferenceWhereThreeNumbersHaveNoCommonRatio) {
  EXPECT_THAT(numbers("1,2,3..6"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(numbers("4,6,9..16"), ElementsAre(4, 6, 9, 12, 15)) << "3/2 is no whole ratio";
}

TEST(NumberList, StopsBelowALastNumberThatTheStepsDoNotHit) {
  EXPECT_THAT(numbers("1,2,4..100"), ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_THAT(numbers("1,4..9"), ElementsAre(1, 4, 7));
}

TEST(NumberList, TakesCommasAroundTheDotsAndNumbersAfterThem) {
  EXPECT_THAT(numbers("1,2,4,..,16"), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(numbers("1..3,10"), ElementsAre(1, 2, 3, 10));
}

TEST(NumberList, ReachesTheLargestNumberWithoutOverflow) {
  EXPECT_THAT(numbers("1,1000,1000000..2147483647"), ElementsAre(1, 1000, 1000000, 1000000000));
  EXPECT_THAT(numbers("2147483646..2147483647"), ElementsAre(2147483646, 2147483647));
}

TEST(NumberList, RefusesWhatIsNoNumber) {
  EXPECT_EQ(fault(""), R"("": expected numbers such as 4, 1..16 or 1,2,4..128, got the end)");
  EXPECT_EQ(fault("4,x"), R"("4,x": expected numbers such as 4, 1..16 or 1,2,4..128, got "x")");
  EXPECT_THAT(fault("1.5"), HasSubstr(R"(got ".5")"));
  EXPECT_THAT(fault("1,,2"), HasSubstr(R"(got ",2")"));
  EXPECT_THAT(fault("1.."), HasSubstr("got the end"));
  EXPECT_THAT(fault("..4"), HasSubstr(R"(got "..4")"));
  EXPECT_THAT(fault("1 2"), HasSubstr(R"(got " 2")"));
}

TEST(NumberList, RefusesNumbersBelowOneOrAbove2To31) {
  EXPECT_THAT(fault("0"), HasSubstr("expected numbers from 1 to 2147483647, got 0"));
  EXPECT_THAT(fault("-3"), HasSubstr("got -3"));
  EXPECT_THAT(fault("2147483648"), HasSubstr("got 2147483648"));
  EXPECT_THAT(fault("99999999999999999999"), HasSubstr("got 99999999999999999999"));
}

TEST(NumberList, RefusesARangeThatGoesDown) {
  EXPECT_EQ(fault("8..4"), R"("8..4": a range goes up, but 4 comes after 8)");
  EXPECT_THAT(fault("8,4..16"), HasSubstr("4 comes after 8"));
  EXPECT_THAT(fault("4,4..16"), HasSubstr("4 comes after 4"));
}

TEST(NumberList, RefusesMoreNumbersThanASweepCouldRun) {
  EXPECT_EQ(numbers("1..100000").size(), 100'000U);
  EXPECT_THAT(fault("1..2147483647"), HasSubstr("more than 100000 numbers"));
}

// From flags to a scenario.

InputFlags one_f_one_b() {
  InputFlags flags;
  flags.schedule = "1f1b";
  flags.pp_size = 4;
  return flags;
}

TEST(Input, BothSizesOfTheBatchSayTheNumberOfMicrobatches) {
  InputFlags flags = one_f_one_b();
  flags.micro_batch_size = 4;
  flags.global_batch_size = 32;
  const auto scenario = scenario_of(flags, {});
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto experiment = prepared(*scenario);
  ASSERT_TRUE(experiment) << experiment.error().message;
  EXPECT_EQ(experiment->program.microbatches, 8);
}

TEST(Input, OneSizeOfTheBatchDoesNotSayIt) {
  InputFlags flags = one_f_one_b();
  flags.global_batch_size = 32;
  const auto scenario = scenario_of(flags, {});
  ASSERT_FALSE(scenario);
  EXPECT_THAT(scenario.error().message, testing::HasSubstr("--num-microbatches M"));
}

}  // namespace
}  // namespace penstock
