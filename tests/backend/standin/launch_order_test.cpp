// NCCL's kernels start in the order of their launches. A program whose channels are free of hangs may hang
// then: it is refused; past the checker it ends with rank, action and peer; without the order it runs.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/nccl/nccl_transport.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_order.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/verdict.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Verdict;

FlatProgram flat_of(const Experiment& experiment) {
  return flatten(experiment.program, experiment.costs,
                 {.channels = nccl_channels(), .iterations = experiment.program.iterations});
}

/// GPipe on two ranks, where rank 0 asks for all gradients before it computes:
///   rank 0   RECV_B0 RECV_B1 RECV_B2 F0 SEND_F0 F1 SEND_F1 ...
/// RECV_B1 waits on its stream for RECV_B0, and SEND_F0 for the start of RECV_B1, which needs B0 on rank 1.
Experiment receives_first() {
  Experiment experiment = gpu_experiment("gpipe", 2, 3, 64);
  std::ranges::stable_partition(experiment.program.ranks[0], [](const Action& action) {
    return action.kind == ActionKind::recv_backward;
  });
  return experiment;
}

Verdict run(const Experiment& experiment, bool launch_order, const std::string& mutant = "") {
  return controlled(
      {.seed = 1, .devices = 2, .launch_order = launch_order, .past_the_checker = true, .mutant = mutant},
      [&] {
        const GpuRun done = run_over_nccl(experiment, occupying(experiment), 1);
        return done.error.empty() ? std::string("good") : done.error;
      });
}

TEST(LaunchOrder, NoScheduleOfTheTableHangs) {
  for (const ScheduleInfo& info : schedule_table()) {
    for (const std::int32_t stages : {2, 4}) {
      for (const std::int32_t microbatches : {4, 8}) {
        if (!generate(info.name, {.stages = stages, .microbatches = microbatches})) continue;
        const Experiment experiment = gpu_experiment(std::string(info.name), stages, microbatches, 64);
        const auto hang = find_launch_hang(flat_of(experiment));
        EXPECT_FALSE(hang) << info.name << " " << stages << " " << microbatches << "\n" << hang->message;
      }
    }
  }
}

TEST(LaunchOrder, WhatHangsUnderItIsFoundThoughItsChannelsAreFree) {
  const Experiment experiment = receives_first();
  EXPECT_FALSE(find_hang(experiment.program, nccl_channels(), experiment.costs));
  const auto hang = find_launch_hang(flat_of(experiment));
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->ranks, (std::vector<std::int32_t>{0, 1}));
  EXPECT_THAT(
      hang->message,
      testing::HasSubstr("0RECV_B1 has not started, since 0RECV_B0 before it has not ended, and holds back"));
}

TEST(LaunchOrder, PastTheCheckerItEndsWithRankActionAndPeer) {
  const Verdict verdict = run(receives_first(), true);
  EXPECT_THAT(verdict.answer,
              testing::ContainsRegex("rank [01]: [01][FB][012]: waited 10 s for [01]RECV_[FB][012] from "
                                     "rank [01]"))
      << to_text(verdict);
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
}

TEST(LaunchOrder, AbortsOneByOneWouldWaitForEachOther) {
  const Verdict verdict = run(receives_first(), true, "aborts one by one");
  EXPECT_EQ(verdict.answer, "hang") << to_text(verdict);
  EXPECT_THAT(to_text(verdict), testing::HasSubstr("aborts communicators"));
}

TEST(LaunchOrder, WithoutTheOrderItRuns) {
  const Verdict verdict = run(receives_first(), false);
  EXPECT_EQ(verdict.answer, "good") << to_text(verdict);
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
}

}  // namespace
}  // namespace penstock
