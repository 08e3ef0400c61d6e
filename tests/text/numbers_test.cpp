// Tests which texts are read as numbers, and the messages about all other texts.

#include "text/numbers.hpp"

#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Numbers, AllOfATextIsANumberOrItIsNone) {
  EXPECT_EQ(number_of_text<std::int32_t>("010"), 10);
  EXPECT_EQ(number_of_text<std::int32_t>("-3"), -3);
  for (const char* const text : {"", " 1", "1 ", "+1", "0x10", "1.0", "1e3", "2147483648"})
    EXPECT_EQ(number_of_text<std::int32_t>(text), std::nullopt) << text;
  EXPECT_EQ(number_of_text<std::int64_t>("2147483648"), 2147483648);
  EXPECT_EQ(number_of_text<double>("1e3"), 1000.0);
}

TEST(Numbers, AFiniteNumberIsNoInfinity) {
  EXPECT_EQ(finite_number("2.5"), 2.5);
  for (const char* const text : {"inf", "nan", "1e999", "2.5x"})
    EXPECT_EQ(finite_number(text), std::nullopt) << text;
}

TEST(Numbers, TheSpellingOfALeadingNumberTellsWhatFollows) {
  const auto number = leading_number<std::int64_t>("-12gb");
  EXPECT_EQ(number.value, -12);
  EXPECT_EQ(number.spelling, "-12");
}

TEST(Numbers, ANumberThatIsTooLargeIsSpelledButHasNoValue) {
  const auto number = leading_number<std::int64_t>("99999999999999999999,3");
  EXPECT_EQ(number.value, std::nullopt);
  EXPECT_EQ(number.spelling, "99999999999999999999");
  EXPECT_EQ(leading_number<std::int64_t>("x9").spelling, "");
}

TEST(Numbers, AWholeNumberOutOfRangeIsRefusedWithWhatWasExpected) {
  EXPECT_EQ(whole_number("8", {.least = 1, .most = 8}), 8);
  EXPECT_EQ(whole_number("9", {.least = 1, .most = 8}).error(),
            "expected a whole number from 1 to 8, got \"9\"");
  EXPECT_EQ(whole_number("", {.least = 1, .most = 8}).error(),
            "expected a whole number from 1 to 8, got nothing");
}

}  // namespace
}  // namespace penstock
