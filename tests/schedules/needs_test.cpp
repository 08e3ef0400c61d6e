#include "schedules/ir/needs.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

std::string_view name(std::optional<Flow> flow) {
  if (!flow) return "-";
  return *flow == Flow::activation ? "activation" : "gradient";
}

/// "B: gradient -> gradient after UNSHARD": what the kind takes, gives and waits for.
std::string needs_of(ActionKind kind, RecomputeTiming recompute = RecomputeTiming::early,
                     std::int32_t sharding = 0) {
  std::string text = std::string(letters(kind)) + ": ";
  text += name(input_of(kind, recompute));
  text += " -> ";
  text += name(output_of(kind));
  for (const ActionKind collective : collectives_before(kind, sharding))
    text += (collective == collectives_before(kind, sharding).front() ? " after " : ", ") +
            std::string(letters(collective));
  return text;
}

TEST(Needs, AForwardHandsActivationsOnAndBackwardsOfTheInputHandGradientsBack) {
  EXPECT_EQ(needs_of(ActionKind::forward), "F: activation -> activation after UNSHARD");
  EXPECT_EQ(needs_of(ActionKind::backward), "B: gradient -> gradient after UNSHARD");
  EXPECT_EQ(needs_of(ActionKind::backward_input), "I: gradient -> gradient after UNSHARD");
  EXPECT_EQ(needs_of(ActionKind::backward_weight), "W: - -> - after UNSHARD");
}

TEST(Needs, AStepWaitsForItsReductionAndTheRestForNothing) {
  EXPECT_EQ(needs_of(ActionKind::step), "STEP: - -> - after REDUCE_GRAD");
  for (const ActionKind kind : {ActionKind::unshard, ActionKind::reshard, ActionKind::reduce_grad,
                                ActionKind::send_forward, ActionKind::recv_backward}) {
    EXPECT_EQ(needs_of(kind), std::string(letters(kind)) + ": - -> -");
  }
}

// Where each microbatch's gradients are reduced, the next ones are made in the same place.
TEST(Needs, AGradientOfAShardWaitsForTheReductionBeforeIt) {
  const auto of_sharding = [](ActionKind kind, std::int32_t sharding) {
    return needs_of(kind, RecomputeTiming::early, sharding);
  };
  for (const std::int32_t sharding : {2, 3}) {
    EXPECT_EQ(of_sharding(ActionKind::backward, sharding),
              "B: gradient -> gradient after UNSHARD, REDUCE_GRAD");
    EXPECT_EQ(of_sharding(ActionKind::backward_weight, sharding), "W: - -> - after UNSHARD, REDUCE_GRAD");
    EXPECT_EQ(of_sharding(ActionKind::forward, sharding), "F: activation -> activation after UNSHARD");
  }
}

TEST(Needs, OnlyALateRecomputationWaitsForItsGradient) {
  EXPECT_EQ(needs_of(ActionKind::recompute, RecomputeTiming::early), "R: - -> - after UNSHARD");
  EXPECT_EQ(needs_of(ActionKind::recompute, RecomputeTiming::late), "R: gradient -> - after UNSHARD");
}

TEST(Needs, WhatIComputesAgainIsItsOwnUntilW) {
  const StageCost cost{
      .kept = 100, .released_by_input = 30, .recomputed = 40, .transient = 9, .recomputed_at_once = 5};
  const auto of = [&](ActionKind kind) {
    return std::vector<Bytes>{released_activations(cost, kind), recomputed_activations(cost, kind),
                              transient_bytes(cost, kind)};
  };
  EXPECT_EQ(of(ActionKind::forward), (std::vector<Bytes>{0, 0, 9}));
  EXPECT_EQ(of(ActionKind::backward), (std::vector<Bytes>{100, 0, 9}));
  EXPECT_EQ(of(ActionKind::backward_input), (std::vector<Bytes>{30, 40, 4}));
  EXPECT_EQ(of(ActionKind::backward_weight), (std::vector<Bytes>{70, 40, 4}));
}

TEST(Needs, GradientsComeFromTheStagesThatActivationsWentTo) {
  const Program diamond{.placement = {.stages = std::vector<StagePlacement>(4, {.ranks = {0}})},
                        .edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}}};
  const StageNeighbours neighbours = stage_neighbours(diamond);
  EXPECT_EQ(takers_of(neighbours, 0, Flow::activation), (std::vector{1, 2}));
  EXPECT_EQ(givers_of(neighbours, 0, Flow::gradient), (std::vector{1, 2}));
  EXPECT_EQ(givers_of(neighbours, 3, Flow::activation), (std::vector{1, 2}));
  EXPECT_EQ(takers_of(neighbours, 3, Flow::gradient), (std::vector{1, 2}));
}

/// "1SEND_F5 2RECV_F5 over 1>2".
std::string ends_of(const StageMessage& message) {
  const StageEdge edge = edge_of(message);
  return to_text(send_of(message)) + " " + to_text(recv_of(message)) + " over " + std::to_string(edge.from) +
         ">" + std::to_string(edge.to);
}

TEST(Needs, GradientsGoAgainstTheirEdge) {
  EXPECT_EQ(ends_of({.flow = Flow::activation, .from = 1, .to = 2, .microbatch = 5}),
            "1SEND_F5 2RECV_F5 over 1>2");
  EXPECT_EQ(ends_of({.flow = Flow::gradient, .from = 2, .to = 1, .microbatch = 5}),
            "2SEND_B5 1RECV_B5 over 1>2");
}

TEST(Needs, BothEndsOfAMessageNameTheSameOne) {
  for (const Flow flow : {Flow::activation, Flow::gradient}) {
    const StageMessage message{.flow = flow, .from = 3, .to = 1, .microbatch = 5};
    EXPECT_EQ(message_of(send_of(message)), message);
    EXPECT_EQ(message_of(recv_of(message)), message);
  }
}

TEST(Needs, ABackwardReleasesWhatItsForwardKeptAtOnceOrInTwoParts) {
  const StageCost cost{.kept = 10, .released_by_input = 7};
  EXPECT_EQ(released_activations(cost, ActionKind::backward), 10);
  EXPECT_EQ(released_activations(cost, ActionKind::backward_input), 7);
  EXPECT_EQ(released_activations(cost, ActionKind::backward_weight), 3);
  EXPECT_EQ(released_activations(cost, ActionKind::forward), 0);
  EXPECT_EQ(released_activations(cost, ActionKind::recompute), 0);
}

/// The lives of the versions of the one stage whose actions are listed.
std::vector<VersionLife> lives_of(const std::vector<Action>& list) {
  VersionLives lives;
  for (std::size_t i = 0; i < list.size(); ++i) lives.note(list[i], static_cast<std::int32_t>(i));
  return lives.all();
}

Action compute(ActionKind kind, std::int32_t version) {
  return {.kind = kind, .microbatch = 0, .weight_version = version};
}
constexpr Action kStep{.kind = ActionKind::step};

TEST(Needs, AVersionLivesFromItsStepToItsLastUse) {
  // F@0 F@0 B@0 STEP F@1 B@0 STEP
  const auto lives = lives_of({compute(ActionKind::forward, 0), compute(ActionKind::forward, 0),
                               compute(ActionKind::backward, 0), kStep, compute(ActionKind::forward, 1),
                               compute(ActionKind::backward, 0), kStep});
  const std::vector<VersionLife> expected{{.made_by = kNoPosition, .replaced_by = 3, .last_used_by = 5},
                                          {.made_by = 3, .replaced_by = 6, .last_used_by = 4},
                                          {.made_by = 6}};
  EXPECT_EQ(lives, expected);
}

TEST(Needs, AVersionGoesBehindItsLastUseOrWithItsReplacement) {
  const VersionLife used_later{.replaced_by = 3, .last_used_by = 5};
  const VersionLife used_before{.made_by = 3, .replaced_by = 6, .last_used_by = 4};
  EXPECT_TRUE(used_later.is_used_after_its_replacement());
  EXPECT_FALSE(used_before.is_used_after_its_replacement());
  EXPECT_EQ(used_later.dropped_by(), 5);
  EXPECT_EQ(used_before.dropped_by(), 6);
  EXPECT_EQ(VersionLife{.made_by = 6}.dropped_by(), kNoPosition) << "the newest stays";
}

}  // namespace
}  // namespace penstock
