// NCCL's kernels start in the order of their launches. A program that does not hang on its channels may hang
// because of this order. The checker refuses such a program. Without the checker, it ends with an error that
// names the rank, the action, the peer and the receive that blocks. Without launch order it succeeds. For
// random programs, the checker and the stand-in must agree.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/verdict.hpp"
#include "tests/schedules/held_back.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Setting;
using standin::Verdict;

/// Returns the program held_back(). Rank 0 launches its RECVs up to RECV_B2 before SEND_F3, and rank 1 sends
/// B1 only after its F3.
Experiment held_back_experiment() {
  Experiment experiment = gpu_experiment("gpipe", 2, 4, 64);
  experiment.program = held_back();
  return experiment;
}

/// Runs the experiment with the options of a user who asks for launch order, or who does not.
Verdict run(const Experiment& experiment, Setting setting, bool launch_order = false) {
  setting.devices = experiment.program.rank_count();
  return controlled(setting, [&] {
    const GpuRun done = run_over_nccl(experiment, occupying(experiment), 1,
                                      {.deadline = std::chrono::seconds(10), .launch_order = launch_order});
    return done.error.empty() ? std::string("good") : done.error;
  });
}

TEST(StandInLaunchOrder, WhatHangsIsRefused) {
  const Verdict verdict = run(held_back_experiment(), {}, true);
  EXPECT_THAT(verdict.answer, testing::StartsWith("hangs under directed channels, in launch order; "));
  EXPECT_THAT(verdict.answer,
              testing::HasSubstr("0SEND_F3 waits for 0RECV_B2 on rank 0, position 8, launched before it"));
}

TEST(StandInLaunchOrder, WhatHangsIsRefusedAlsoWhereTheScenarioAsksForTheOrder) {
  Experiment experiment = held_back_experiment();
  experiment.channels.launch_order = true;
  const Verdict verdict = run(experiment, {});
  EXPECT_THAT(verdict.answer, testing::StartsWith("hangs under directed channels, in launch order; "));
}

TEST(StandInLaunchOrder, PastTheCheckerItEndsWithRankActionPeerAndWhatIsInTheWay) {
  const Verdict verdict = run(held_back_experiment(), {.past_the_checker = true});
  EXPECT_THAT(verdict.answer,
              testing::ContainsRegex("rank [01]: [01][FB][0-3]: waited 10 s for [01]RECV_[FB][0-3] from "
                                     "rank [01]"))
      << to_text(verdict);
  EXPECT_THAT(verdict.answer,
              testing::HasSubstr("0SEND_F3 waits for 0RECV_B2 on rank 0, position 8, launched before it"));
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
}

// The thread that aborts, and its data, are not freed if its deadline has passed.
TEST(StandInLaunchOrder, AbortsOneByOneWaitForEachOther) {
  const Verdict verdict =
      run(held_back_experiment(), {.past_the_checker = true, .mutant = "aborts one by one"});
  EXPECT_THAT(verdict.defects, testing::Contains("leak: 2 communicators")) << to_text(verdict);
  EXPECT_GT(verdict.seconds, 30) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::HasSubstr("waited 10 s for"));
}

TEST(StandInLaunchOrder, WithoutTheOrderWhichIsTheDefaultItRuns) {
  const Verdict verdict = run(held_back_experiment(), {});
  EXPECT_EQ(verdict.answer, "good") << to_text(verdict);
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
}

/// Returns the program with each RECV moved some positions forward. The order of the RECVs does not change.
Program with_early_receives(Program program, std::mt19937& random) {
  for (std::vector<Action>& list : program.ranks) {
    std::size_t barrier = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!is_recv(list[i].kind)) continue;
      const std::size_t to = i - std::min<std::size_t>(i - barrier, random() % 7);
      const auto begin = list.begin() + static_cast<std::ptrdiff_t>(to);
      std::rotate(begin, list.begin() + static_cast<std::ptrdiff_t>(i),
                  list.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      barrier = to + 1;
    }
  }
  return program;
}

TEST(StandInLaunchOrder, TheCheckerAndTheStandInAgreeOnProgramsMadeAtRandom) {
  const ChannelOptions ordered{.launch_order = true};
  std::mt19937 random(1);
  int hanging = 0;
  for (int i = 0; i < 30; ++i) {
    Experiment experiment = gpu_experiment(i % 2 == 0 ? "1f1b" : "gpipe", 2 + i % 3 / 2, 4, 64);
    experiment.program = with_early_receives(experiment.program, random);
    ASSERT_TRUE(validate(experiment.program));
    ASSERT_FALSE(find_hang(experiment.program, {}, experiment.costs));
    const auto hang = find_hang(experiment.program, ordered, experiment.costs);
    if (hang) ++hanging;
    const Verdict verdict =
        run(experiment, {.seed = static_cast<std::uint64_t>(i) + 1, .past_the_checker = true});
    SCOPED_TRACE(fmt::format("program {}: {}\n{}", i, hang ? hang->message : "free", to_text(verdict)));
    EXPECT_EQ(verdict.answer == "good", !hang);
    EXPECT_TRUE(verdict.defects.empty());
  }
  EXPECT_GT(hanging, 5);
  EXPECT_LT(hanging, 25);
}

}  // namespace
}  // namespace penstock
