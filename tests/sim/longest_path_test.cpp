// The longest path of a run is the whole of its makespan, so two paths explain the whole difference.

#include "sim/baseline/longest_path.hpp"

#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/baseline/baseline.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

struct PathOf {
  std::vector<PathStep> path;
  Ns makespan_ns = 0;
};

/// 1f1b and others, F = 1 ms and B = 2 ms unless `more` says otherwise.
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

// Rank 1 keeps rank 0 waiting with F1, and both reduce twice at the instant in which it ends:
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
