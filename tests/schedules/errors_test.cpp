// Tests that errors of a user contain a hint at the name that the user probably meant. The second part tests
// the macro that returns the first error of a list of steps.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "schedules/ir/return_if_error.hpp"
#include "schedules/rules/generators.hpp"
#include "text/enum_words.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 5> kKnown = {"stages", "microbatches", "event", "b300", "gb200"};

TEST(NearestName, ALetterThatIsAddedDroppedReplacedOrSwappedIsASlip) {
  EXPECT_EQ(likely_name("microbatch", kKnown), "microbatches");
  EXPECT_EQ(likely_name("stage", kKnown), "stages");
  EXPECT_EQ(likely_name("stagos", kKnown), "stages");
  EXPECT_EQ(likely_name("stagse", kKnown), "stages");
  EXPECT_EQ(likely_name("evetn", kKnown), "event") << "two letters that changed their places are one slip";
  EXPECT_EQ(likely_name("STAGES", kKnown), "stages");
}

TEST(NearestName, ANameThatIsSpelledOtherwiseGetsNoHint) {
  for (const char* typed : {"mi300x", "h20", "rtx4090", "", "stagnation", "b3"})
    EXPECT_EQ(likely_name(typed, kKnown), std::nullopt) << typed;
  EXPECT_EQ(did_you_mean("mi300x", kKnown), "");
  EXPECT_EQ(did_you_mean("stagse", kKnown), "; did you mean stages?");
}

TEST(NearestName, SomeWordsOfANameAreThatName) {
  constexpr std::array<std::string_view, 2> kKeys = {"intra_bandwidth", "memory-limit"};
  EXPECT_EQ(likely_name("bandwidth", kKeys), "intra_bandwidth");
  EXPECT_EQ(likely_name("memory", kKeys), "memory-limit");
  EXPECT_EQ(likely_name("band", kKeys), std::nullopt);
}

TEST(NearestName, AWholeFileIsComparedWithNothing) {
  EXPECT_EQ(likely_name(std::string(50'000'000, 's'), kKnown), std::nullopt);
}

TEST(NearestName, OtherProgramsNamesOfSchedulesAreKnown) {
  const auto name_of = [](std::string_view typed) {
    const ScheduleInfo* found = find_schedule(typed);
    return found == nullptr ? std::string("none") : std::string(found->name);
  };
  for (const char* typed : {"one_f_one_b", "1F1B", "Schedule1F1B", "TrainSchedule", "non-interleaved",
                            "forward_backward_pipelining_without_interleaving", "OneForwardOneBackward"})
    EXPECT_EQ(name_of(typed), "1f1b") << typed;
  for (const char* typed : {"FThenB", "F-then-B", "afab", "AFAB", "AllForwardAllBackward", "GPipe"})
    EXPECT_EQ(name_of(typed), "gpipe") << typed;
  for (const char* typed : {"vpp", "VPP", "Interleaved1F1B", "1F1B-interleaved", "depth-first",
                            "forward_backward_pipelining_with_interleaving"})
    EXPECT_EQ(name_of(typed), "interleaved") << typed;
  for (const char* typed : {"ZBH1", "zbh1"}) EXPECT_EQ(name_of(typed), "zb-h1") << typed;
  for (const char* typed : {"ZBV", "ZBVPP", "v-zb", "zero_bubble_v"})
    EXPECT_EQ(name_of(typed), "zb-v") << typed;
  EXPECT_EQ(name_of("DualPipeV"), "dualpipe-v");
  EXPECT_EQ(name_of("ZBVZeroBubble"), "zbv-zero-bubble");
  EXPECT_EQ(name_of("InterleavedZeroBubble"), "interleaved-zero-bubble");
}

TEST(NearestName, AMistypedAliasNamesItsSchedule) {
  EXPECT_EQ(unknown_schedule("1f2b"),
            "unknown schedule \"1f2b\"; did you mean 1f1b? `penstock schedules` lists all");
  EXPECT_EQ(unknown_schedule("fill_drian"),
            "unknown schedule \"fill_drian\"; did you mean gpipe? `penstock schedules` lists all");
  EXPECT_EQ(unknown_schedule("round robin"),
            "unknown schedule \"round robin\"; `penstock schedules` lists all");
}

// Tests that a function whose steps may fail can be written as a list of steps, and that it returns the first
// error.

using StepResult = tl::expected<std::unique_ptr<int>, std::string>;

/// Runs two steps, and records the name of each step that was begun.
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
