// Tests the explanations of a baseline check: the difference of the programs, the step at which the longest
// path differs, the change of memory, and the reason of a hang. The tests of the longest path, which explains
// the whole makespan, are at the end.

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/hold/baseline.hpp"
#include "sim/why/explain.hpp"
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

// A baseline without programs still holds the bill, so the check says which cause has grown.
TEST_F(BaselineTest, ABaselineWithoutProgramsHoldsTheBill) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"});
  const auto again = parse_baseline(to_json(baseline), "base.json");
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(*again, baseline);
  ASSERT_TRUE(again->entries[0].held);
  EXPECT_TRUE(again->entries[0].held->program.empty());
  write("a.yaml",
        std::string(kOneFOneB) + "model: {stages: {forward: 1 ms, backward: [2 ms, 2 ms, 2 ms, 3 ms]}}\n");
  const BaselineVerdict verdict = verdict_on(*again);
  EXPECT_THAT(verdict.reasons, Contains("     +5.250 ms  imbalance: 0 ns -> 5.250 ms"));
  EXPECT_THAT(verdict.reasons, testing::Not(Contains(HasSubstr("the program"))));
}

TEST_F(BaselineTest, SlowerCostsAreNamedWhereTheProgramIsTheSame) {
  write("a.yaml", kOneFOneB);
  const Baseline baseline = baseline_of({"a.yaml"}, Holds::programs);
  write("a.yaml",
        std::string(kOneFOneB) + "model: {stages: {forward: 1 ms, backward: [2 ms, 2 ms, 2 ms, 3 ms]}}\n");
  const BaselineVerdict verdict = verdict_on(baseline);
  EXPECT_THAT(verdict.reasons, Contains("the program is the same: costs, cluster or channels have changed"));
  EXPECT_THAT(verdict.reasons, Contains("     +5.250 ms  imbalance: 0 ns -> 5.250 ms"));
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

/// Returns a program with two stages on the given ranks. Each stage runs 16 forward and 16 backward passes.
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

// A change with many removed actions must also show the added ones.
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

// The program file has no messages, as is usual. It is compared with the compute actions of the stored
// program, which is lowered.
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
    if (reason.find('>') != std::string::npos) continue;  // in XML, '>' is written in another form
    EXPECT_THAT(junit, HasSubstr(reason));
  }
}

// The critical path of a run takes its whole makespan, and two bills explain the whole difference.

Explanation explanation_of_schedule(const std::string& schedule, const std::string& more = "") {
  const auto scenario = parse_scenario(
      fmt::format("schedule: {{name: {}, stages: 4, microbatches: 8}}\n{}", schedule, more), "test", "");
  EXPECT_TRUE(scenario) << scenario.error();
  const auto experiment = prepare(*scenario);
  return experiment ? explained(*caused_run(*experiment)) : Explanation{};
}

std::string text_of(const std::vector<PathStep>& path) {
  std::string text;
  for (const PathStep& step : path) text += (text.empty() ? "" : " ") + step.action;
  return text;
}

TEST(LongestPath, OfOneFOneBGoesDownThroughTheLastStageAndUp) {
  const std::vector<PathStep> path = longest_path(explanation_of_schedule("1f1b"));
  EXPECT_EQ(text_of(path),
            "0F0 1F0 2F0 3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7 2B7 1B7 0B7");
  EXPECT_EQ(path.back().end_ns, 33'000'000);
}

TEST(LongestPath, WithoutLatencyNothingIsLeftBetweenItsStepsInAnySchedule) {
  int looked_at = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const Explanation why = explanation_of_schedule(std::string(schedule.name));
    if (why.ranks == 0) continue;
    ++looked_at;
    Ns since = 0;
    for (const PathStep& step : longest_path(why)) {
      EXPECT_EQ(step.start_ns, since) << schedule.name << " " << to_text(step);
      since = step.end_ns;
    }
    EXPECT_EQ(since, why.makespan_ns) << schedule.name;
  }
  EXPECT_GE(looked_at, 15);
}

TEST(LongestPath, TheFirstStepThatDiffersIsWhereThePathsPart) {
  const std::vector<PathStep> before = longest_path(explanation_of_schedule("1f1b"));
  const std::vector<PathStep> after = longest_path(explanation_of_schedule("gpipe"));
  const std::size_t step = parting_step(before, after);
  EXPECT_EQ(before.at(step).action, "3B0");
  EXPECT_EQ(after.at(step).action, "3F1");
}

TEST(BillChange, TheLinesAddUpToTheDifferenceOfTheMakespans) {
  const std::vector<std::string> names = {"gpipe", "1f1b", "zb-h1", "interleaved", "gems", "naive"};
  const std::string slow = "cluster: {preset: uniform, devices: 4, latency: 500 us}\n";
  for (const std::string& before : names) {
    for (const std::string& after : names) {
      const MeanBill old_bill = mean_bill(explanation_of_schedule(before));
      const MeanBill new_bill = mean_bill(explanation_of_schedule(after, slow));
      Ns sum = 0;
      for (const BillChange& change : changes_of(old_bill, new_bill))
        sum += change.after_ns - change.before_ns;
      EXPECT_EQ(sum, new_bill.makespan_ns - old_bill.makespan_ns) << before << " -> " << after;
    }
  }
}

TEST(BillChange, ZeroBubbleDrainsFaster) {
  const std::string links = "cluster: {preset: uniform, devices: 4, latency: 50 us}\n";
  const auto lines = change_lines(mean_bill(explanation_of_schedule("1f1b", links)),
                                  mean_bill(explanation_of_schedule("zb-h1", links)));
  EXPECT_EQ(lines,
            (std::vector<std::string>{"the makespan changes by -6.200 ms, of which a rank has on average:",
                                      "     -6.000 ms  drain: 6.000 ms -> 0 ns",
                                      "   -200.000 us  latency: 800.000 us -> 600.000 us"}));
}

TEST(LongestPath, StepsHaveATextThatIsReadBack) {
  const PathStep step = {.rank = 3, .action = "1F3", .start_ns = 5, .end_ns = 7};
  EXPECT_EQ(path_step_of_text(to_text(step)), step);
  for (const char* wrong : {"", "0", "0 1F3 5", "0 1F3 7 5", "-1 1F3 5 7", "0 1F3 5 7 9", "x 1F3 5 7"})
    EXPECT_FALSE(path_step_of_text(wrong)) << wrong;
}

}  // namespace
}  // namespace penstock
