// What a baseline says where something got worse: the program's difference, where the longer path leaves the
// old one, what holds more memory, why it hangs.

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/baseline/baseline.hpp"
#include "tests/sim/baseline_fixture.hpp"

namespace penstock {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST_F(BaselineTest, ABaselineThatHoldsItsProgramsSaysWhatChangedAndWhere) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"}, Holds::programs);
  const auto again = parse_baseline(to_json(baseline), "base.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(*again, baseline);
  write("a.yaml", "schedule: {name: gpipe, stages: 4, microbatches: 8}\n");
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_THAT(verdict.reasons, Contains("the program has changed:"));
  EXPECT_THAT(verdict.reasons, Contains("  rank 3: 8 changes in 33 actions"));
  EXPECT_THAT(
      verdict.reasons,
      Contains("the longest path leaves the old one after rank 3 3F0 at 3.000 ms: rank 3 3F1 at 4.000 ms, "
               "where it was rank 3 3B0 at 4.000 ms"));
}

TEST_F(BaselineTest, SlowerCostsAreNamedWhereTheProgramIsTheSame) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"}, Holds::programs);
  write("a.yaml",
        std::string(kOneFOneB) + "model: {stages: {forward: 1 ms, backward: [2 ms, 2 ms, 2 ms, 3 ms]}}\n");
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_THAT(verdict.reasons, Contains("the program is the same: costs, cluster or channels have changed"));
  EXPECT_THAT(verdict.reasons, Contains("   +8.000 ms  rank 3 B: 16.000 ms -> 24.000 ms"));
}

TEST_F(BaselineTest, MoreMemoryIsNamedByRankMomentAndWhatHoldsIt) {
  const auto with_weights = [&](const std::string& weights) {
    write("a.yaml", std::string(kOneFOneB) +
                        "model: {stages: {forward: 1 ms, backward: 2 ms, weights: [1 GiB, " + weights +
                        ", 1 GiB, 1 GiB]}}\n");
  };
  with_weights("1 GiB");
  const Baseline baseline = baseline_of({"a.yaml"}, Holds::programs);
  const auto again = parse_baseline(to_json(baseline), "base.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(*again, baseline);
  with_weights("3 GiB");
  const BaselineVerdict verdict = verdict_on(*again);
  EXPECT_THAT(verdict.reasons,
              Contains("the peak of memory is 6.00 GiB on rank 1 at 1B0, where it was 2.00 GiB "
                       "on rank 0 at 0B0"));
  EXPECT_THAT(verdict.reasons, Contains("   +2.00 GiB  weights: 1.00 GiB -> 3.00 GiB"));
}

TEST_F(BaselineTest, AnotherProgramOfManyRanksIsExplainedInFewLines) {
  write("a.yaml", "schedule: {name: 1f1b, stages: 32, microbatches: 64}\n");
  const Baseline baseline = baseline_of({"a.yaml"}, Holds::programs);
  write("a.yaml", "schedule: {name: gpipe, stages: 32, microbatches: 96}\n");
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_LT(verdict.reasons.size(), 60U);
  for (const std::string& reason : verdict.reasons) EXPECT_LT(reason.size(), 200U) << reason;
  EXPECT_THAT(verdict.reasons, Contains("  and 24 ranks more"));
}

/// Two stages whose ranks are given; each has its list, of 16 forward passes and 16 backward passes.
std::string placed_on(int first, int second) {
  std::string text = "penstock program 1\nschedule custom\nmicrobatches 16\n";
  text += fmt::format("stage 0: rank {}\nstage 1: rank {}\n", first, second);
  for (int rank = 0; rank < 2; ++rank) {
    const int stage = rank == first ? 0 : 1;
    text += fmt::format("rank {}:", rank);
    for (const char pass : {'F', 'B'}) {
      for (int microbatch = 0; microbatch < 16; ++microbatch)
        text += fmt::format(" {}{}{}", stage, pass, microbatch);
    }
    text += fmt::format(" {}STEP\n", stage);
  }
  return text;
}

// What a change takes out does not crowd out what it puts in.
TEST_F(BaselineTest, ALongChangeShowsTheBeginningOfBothOfItsSides) {
  write("a.psched", placed_on(0, 1));
  const Baseline baseline = baseline_of({"a.psched"}, Holds::programs);
  write("a.psched", placed_on(1, 0));
  EXPECT_THAT(
      verdict_on(baseline).reasons,
      Contains(testing::MatchesRegex("    position 0: - 0F0 0SEND_F0 0F1 .* \\.\\.\\. and [0-9]+ more "
                                     "\\+ 1RECV_F0 1F0 .* \\.\\.\\. and [0-9]+ more")));
}

TEST_F(BaselineTest, ManyStagesThatComeOrGoAreFewLines) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"}, Holds::programs);
  write("a.yaml", "schedule: {name: 1f1b, stages: 200, microbatches: 8}\n");
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_LT(verdict.reasons.size(), 60U);
  EXPECT_THAT(verdict.reasons, Contains("  and 188 settings more"));
}

// The list of a program without messages, as people write them, is held against the list that ran.
TEST_F(BaselineTest, AProgramThatBecameInvalidSaysWhatHasChangedInIt) {
  const std::string head =
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n";
  write("a.psched", head + "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 1B0 1F1 1B1 1STEP\n");
  const Baseline baseline = baseline_of({"a.psched"}, Holds::programs);
  write("a.psched", head + "rank 0: 0F0 0F1 0B0 0B1 0STEP\nrank 1: 1F0 1B0 1B1 1F1 1STEP\n");
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_TRUE(verdict.failed());
  EXPECT_THAT(verdict.reasons, Contains("the program has changed:"));
  EXPECT_THAT(verdict.reasons, Contains("  rank 1: 2 changes in 5 actions"));
  EXPECT_FALSE(updated(baseline, directory_).value().entries.at(0).held);
}

TEST_F(BaselineTest, TheWholeReasonOfANewHangIsThere) {
  write("a.psched", kStraight);
  const Baseline baseline = baseline_of({"a.psched"});
  write("a.psched", kCrossed);
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_TRUE(verdict.failed());
  EXPECT_THAT(verdict.reasons, Contains(HasSubstr("waits")));
  EXPECT_GE(verdict.reasons.size(), 3U);
  const std::string junit = to_junit({verdict});
  for (const std::string& reason : verdict.reasons) {
    if (reason.find('>') != std::string::npos) continue;  // XML writes it in another way
    EXPECT_THAT(junit, HasSubstr(reason));
  }
}

}  // namespace
}  // namespace penstock
