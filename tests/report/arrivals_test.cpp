// What the idle time before an action was.

#include "report/timeline/arrivals.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// On rank 1; messages are of the stage before.
Span span(ActionKind kind, std::int32_t stage, std::int32_t microbatch, Ns start_ns, Ns end_ns) {
  return {.rank = 1,
          .action = {.kind = kind, .stage = stage, .microbatch = microbatch, .peer = stage - 1},
          .start_ns = start_ns,
          .end_ns = end_ns};
}

TEST(IdleBeforeActions, IsWaitingUntilTheMessageIsOnItsWayThenTransferThenLaunch) {
  //   0         30           70  75          100
  //   | waiting | transfer   | launch | F    |
  const std::vector<Span> spans = {span(ActionKind::recv_forward, 1, 0, 30, 70),
                                   span(ActionKind::forward, 1, 0, 75, 100)};
  EXPECT_EQ(idle_before_actions(spans),
            (std::vector<IdleBefore>{{.position = 1, .transfer_ns = 40, .launch_ns = 5, .waiting_ns = 30}}));
}

TEST(IdleBeforeActions, WhatHadArrivedBeforeTheRankWasFreeLeavesOnlyLaunch) {
  const std::vector<Span> spans = {span(ActionKind::forward, 1, 0, 0, 100),
                                   span(ActionKind::recv_backward, 1, 0, 20, 60),
                                   span(ActionKind::backward, 1, 0, 103, 200)};
  EXPECT_EQ(idle_before_actions(spans)[1], (IdleBefore{.position = 2, .launch_ns = 3}));
}

TEST(IdleBeforeActions, AMessageOfAnotherActionDoesNotCount) {
  const std::vector<Span> spans = {
      span(ActionKind::recv_forward, 1, 0, 0, 10), span(ActionKind::forward, 1, 0, 10, 20),
      span(ActionKind::recv_forward, 1, 1, 20, 90), span(ActionKind::backward, 1, 0, 60, 70)};
  EXPECT_EQ(idle_before_actions(spans)[1], (IdleBefore{.position = 3, .launch_ns = 40}));
}

TEST(IdleBeforeActions, ARecomputationWaitedForItsGradientOnlyIfThatHadArrived) {
  const std::vector<Span> late = {span(ActionKind::recv_backward, 1, 0, 10, 50),
                                  span(ActionKind::recompute, 1, 0, 52, 60)};
  EXPECT_EQ(idle_before_actions(late)[0],
            (IdleBefore{.position = 1, .transfer_ns = 40, .launch_ns = 2, .waiting_ns = 10}));
  const std::vector<Span> early = {span(ActionKind::recv_backward, 1, 0, 10, 50),
                                   span(ActionKind::recompute, 1, 0, 5, 20)};
  EXPECT_EQ(idle_before_actions(early)[0], (IdleBefore{.position = 1, .launch_ns = 5}));
}

TEST(IdleBeforeActions, AStepWaitsForItsReduction) {
  const std::vector<Span> spans = {span(ActionKind::reduce_grad, 1, kNoMicrobatch, 0, 30),
                                   span(ActionKind::step, 1, kNoMicrobatch, 31, 40)};
  EXPECT_EQ(idle_before_actions(spans)[0], (IdleBefore{.position = 1, .transfer_ns = 30, .launch_ns = 1}));
}

TEST(IdleBeforeActions, AnOverlappedPairWaitsForWhatBothNeedAndIsOneAction) {
  std::vector<Span> spans = {
      span(ActionKind::recv_forward, 1, 1, 0, 10), span(ActionKind::recv_backward, 1, 0, 0, 40),
      span(ActionKind::forward, 1, 1, 44, 60), span(ActionKind::backward, 1, 0, 44, 60)};
  spans[2].action.overlaps_next = true;
  EXPECT_EQ(idle_before_actions(spans),
            (std::vector<IdleBefore>{{.position = 2, .transfer_ns = 40, .launch_ns = 4}}));
}

}  // namespace
}  // namespace penstock
