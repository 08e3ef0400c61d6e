// What a bar leaves on the terminal: nothing, however narrow it is.

#include "cli/progress_bar.hpp"

#include <cstddef>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::HasSubstr;

/// All that a bar writes from its first call to its end.
std::string written(ProgressDisplay display) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar(display);
    bar.show(3, 6);
    bar.show(6, 6);
  }
  return testing::internal::GetCapturedStderr();
}

TEST(ProgressBar, IsWipedByAsManyBlanksAsItHasCharacters) {
  const std::string text = written(ProgressDisplay::on);
  EXPECT_THAT(text, HasSubstr("\r[###############...............] 3 of 6"));
  ASSERT_TRUE(text.ends_with(" \r")) << text;
  const std::size_t wiped = text.size() - 1 - (text.rfind('\r', text.size() - 2) + 1);
  const std::size_t last = text.rfind("\r[");
  EXPECT_EQ(wiped, text.find('\r', last + 1) - last - 1);
  EXPECT_LT(wiped, 80U) << "a line of a usual terminal";
}

TEST(ProgressBar, WritesNothingWhereItIsOff) { EXPECT_EQ(written(ProgressDisplay::off), ""); }

}  // namespace
}  // namespace penstock
