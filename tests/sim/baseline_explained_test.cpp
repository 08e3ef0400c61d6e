// Tests the explanations of a baseline check: the difference of the programs, the step at which the longest
// path differs, the change of memory, and the reason of a hang. The tests of the longest path, which explains
// the whole makespan, are at the end.

#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/hold/baseline.hpp"
#include "sim/runs/simulate.hpp"
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

// The steps of the longest path and the waits between them add up to the makespan. So two paths explain the
// whole difference of two makespans.

struct PathOf {
  std::vector<PathStep> path;
  Ns makespan_ns = 0;
};

/// Returns the longest path of a schedule. F takes 1 ms and B 2 ms, unless `more` states other times.
PathOf path_of(const std::string& schedule, const std::string& more = "", int stages = 4,
               int microbatches = 8) {
  const auto scenario = parse_scenario(fmt::format("schedule: {{name: {}, stages: {}, microbatches: {}}}\n{}",
                                                   schedule, stages, microbatches, more),
                                       "test", "");
  EXPECT_TRUE(scenario) << scenario.error();
  const auto experiment = prepare(*scenario);
  if (!experiment) return {};
  const auto result = simulate(*experiment, {.memory = {.samples = false}, .steady = SteadyState::skip});
  EXPECT_TRUE(result);
  return {longest_path(result->timeline, experiment->program), result->makespan_ns};
}

std::string text_of(const std::vector<PathStep>& path) {
  std::string text;
  for (const PathStep& step : path) text += (text.empty() ? "" : " ") + step.action;
  return text;
}

TEST(LongestPath, OfOneFOneBGoesDownThroughTheLastStageAndUp) {
  const PathOf run = path_of("1f1b");
  EXPECT_EQ(text_of(run.path),
            "0F0 1F0 2F0 3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7 2B7 1B7 0B7");
  EXPECT_EQ(run.path.back().end_ns, 33'000'000);
}

TEST(LongestPath, WithoutLatencyNothingIsLeftBetweenItsStepsInAnySchedule) {
  int looked_at = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const PathOf run = path_of(std::string(schedule.name));
    if (run.path.empty()) continue;
    ++looked_at;
    Ns since = 0;
    for (const PathStep& step : run.path) {
      EXPECT_EQ(step.start_ns, since) << schedule.name << " " << to_text(step);
      since = step.end_ns;
    }
    EXPECT_EQ(since, run.makespan_ns) << schedule.name;
  }
  EXPECT_GE(looked_at, 15);
}

// Rank 0 waits for F1 on rank 1. At the instant at which F1 ends, both ranks reduce gradients twice:
//
//   rank 0   F0 B0 ....RG STEP F2 B2 RG STEP
//   rank 1   F1------B1 RG STEP F3 B3 RG STEP          all but F1 takes no time
TEST(LongestPath, TwoReductionsAtOneInstantAreTwo) {
  const PathOf run =
      path_of("1f1b-rr, replicas: [2]",
              "model: {stages: {forward: {microbatches: [0 ms, 1 ms, 0 ms, 0 ms]}, backward: 0 ms}}\n", 1, 4);
  EXPECT_EQ(text_of(run.path), "0F1 0B1 0STEP");
  EXPECT_EQ(run.path.back().end_ns, 1'000'000);
}

TEST(LongestPath, TransfersAreSharesOfTheirOwn) {
  const PathOf free = path_of("1f1b");
  const PathOf slow = path_of("1f1b", "cluster: {preset: uniform, devices: 4, latency: 500 us}\n");
  const PathChange change = change_of(free.path, slow.path);
  Ns sum = 0;
  bool has_transfers = false;
  for (const PathShare& share : change.shares) {
    sum += share.after_ns - share.before_ns;
    has_transfers |= share.what == "from rank 0 to rank 1";
  }
  EXPECT_EQ(sum, slow.makespan_ns - free.makespan_ns);
  EXPECT_TRUE(has_transfers);
}

TEST(LongestPath, TheSharesOfTwoPathsAddUpToTheDifferenceOfTheMakespans) {
  const std::vector<std::string> names = {"gpipe", "1f1b", "zb-h1", "interleaved", "gems", "naive"};
  for (const std::string& before : names) {
    for (const std::string& after : names) {
      const PathOf old_run = path_of(before);
      const PathOf new_run = path_of(after);
      const PathChange change = change_of(old_run.path, new_run.path);
      Ns sum = 0;
      Ns largest =
          change.shares.empty() ? 0 : std::abs(change.shares[0].after_ns - change.shares[0].before_ns);
      for (const PathShare& share : change.shares) {
        sum += share.after_ns - share.before_ns;
        EXPECT_LE(std::abs(share.after_ns - share.before_ns), largest);
        largest = std::abs(share.after_ns - share.before_ns);
      }
      EXPECT_EQ(sum, new_run.makespan_ns - old_run.makespan_ns) << before << " -> " << after;
    }
  }
}

TEST(LongestPath, TheFirstStepThatDiffersIsWhereThePathsPart) {
  const PathChange change = change_of(path_of("1f1b").path, path_of("gpipe").path);
  EXPECT_EQ(path_of("1f1b").path.at(static_cast<std::size_t>(change.step)).action, "3B0");
  EXPECT_EQ(path_of("gpipe").path.at(static_cast<std::size_t>(change.step)).action, "3F1");
}

TEST(LongestPath, StepsHaveATextThatIsReadBack) {
  const PathStep step = {.rank = 3, .action = "1F3", .start_ns = 5, .end_ns = 7};
  EXPECT_EQ(path_step_of_text(to_text(step)), step);
  for (const char* wrong : {"", "0", "0 1F3 5", "0 1F3 7 5", "-1 1F3 5 7", "0 1F3 5 7 9", "x 1F3 5 7"})
    EXPECT_FALSE(path_step_of_text(wrong)) << wrong;
}

}  // namespace
}  // namespace penstock
