// A function whose steps may fail reads as a list of its steps, and returns the error of the first that does.

#include "schedules/ir/return_if_error.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tl/expected.hpp>

namespace penstock {
namespace {

using StepResult = tl::expected<std::unique_ptr<int>, std::string>;

/// Takes two steps, and writes down each that was begun.
tl::expected<int, std::string> sum_of(StepResult first, StepResult second, std::vector<std::string>& begun) {
  begun.emplace_back("first");
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<int> a, std::move(first));
  begun.emplace_back("second");
  std::unique_ptr<int> b;
  PENSTOCK_ASSIGN_OR_RETURN(b, std::move(second));
  return *a + *b;
}

StepResult made(int value) { return std::make_unique<int>(value); }
StepResult failed(const std::string& reason) { return tl::unexpected(reason); }

TEST(ReturnIfError, AssignsWhatStepsMake) {
  std::vector<std::string> begun;
  EXPECT_EQ(sum_of(made(2), made(3), begun), 5) << "of a type that moves and does not copy";
}

TEST(ReturnIfError, ReturnsTheFirstErrorAndTakesNoStepBehindIt) {
  std::vector<std::string> begun;
  const auto sum = sum_of(failed("no first"), failed("no second"), begun);
  ASSERT_FALSE(sum);
  EXPECT_EQ(sum.error(), "no first");
  EXPECT_EQ(begun, std::vector<std::string>{"first"});
  EXPECT_EQ(sum_of(made(1), failed("no second"), begun).error(), "no second");
}

TEST(ReturnIfError, HoldsAStepWithoutAValue) {
  const auto checked = [](const tl::expected<void, std::string>& check) -> tl::expected<int, std::string> {
    PENSTOCK_RETURN_IF_ERROR(check);
    return 1;
  };
  EXPECT_EQ(checked({}), 1);
  EXPECT_EQ(checked(tl::unexpected(std::string("refused"))).error(), "refused");
}

}  // namespace
}  // namespace penstock
