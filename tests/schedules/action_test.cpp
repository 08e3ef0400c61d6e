// Tests the letters and the text of actions, the actions that they need, and the messages that they send over
// numbered edges. The last tests compute the number of minibatches in one iteration of a program.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/text_cursor.hpp"

namespace penstock {
namespace {

Action only_action(const std::string& text) {
  const auto actions = read_actions(text, {});
  const bool one = actions && actions->size() == 1;
  EXPECT_TRUE(one) << text;
  return one ? actions->front() : Action{};
}

TEST(Action, LettersAreThoseOfPyTorch) {
  const std::vector<std::pair<ActionKind, std::string>> table = {
      {ActionKind::forward, "F"},
      {ActionKind::backward, "B"},
      {ActionKind::backward_input, "I"},
      {ActionKind::backward_weight, "W"},
      {ActionKind::recompute, "R"},
      {ActionKind::send_forward, "SEND_F"},
      {ActionKind::recv_forward, "RECV_F"},
      {ActionKind::send_backward, "SEND_B"},
      {ActionKind::recv_backward, "RECV_B"},
      {ActionKind::unshard, "UNSHARD"},
      {ActionKind::reshard, "RESHARD"},
      {ActionKind::reduce_grad, "REDUCE_GRAD"},
      {ActionKind::step, "STEP"},
      {ActionKind::wait_send_forward, "WAIT_SEND_F"},
      {ActionKind::wait_send_backward, "WAIT_SEND_B"},
      {ActionKind::wait_reduce_grad, "WAIT_REDUCE_GRAD"},
      {ActionKind::offload, "OFFLOAD"},
      {ActionKind::reload, "RELOAD"},
  };
  ASSERT_EQ(table.size(), kActionKindCount);
  for (const auto& [kind, text] : table) {
    EXPECT_EQ(letters(kind), text);
    EXPECT_EQ(kind_of_letters(text), kind);
  }
}

TEST(Action, OtherLettersNameNoKind) {
  for (const auto* const text : {"", "f", "FF", "SEND", "SEND_", "OVERLAP_F_B", "BW", "STEP "}) {
    EXPECT_EQ(kind_of_letters(text), std::nullopt) << text;
  }
}

// These texts are read and written again in pytorch's test/distributed/pipelining/test_schedule.py (_Action).
// The others have kinds that only Penstock has.
TEST(Action, TextReadsBackAsTheSameText) {
  for (const auto* const text :
       {"1F0", "2I1", "0W3", "0B3", "1UNSHARD", "3RESHARD", "2SEND_B2", "1RECV_F1", "7R12", "2REDUCE_GRAD",
        "0STEP", "0WAIT_SEND_F3", "2WAIT_SEND_B0", "1WAIT_REDUCE_GRAD", "0OFFLOAD3", "2RELOAD0", "2SEND_F3>4",
        "5RECV_B0<9", "2147483646F2147483647"}) {
    EXPECT_EQ(to_text(only_action(text)), text);
  }
}

TEST(Action, PeerShowsOnlyWhereItIsNotTheNeighbourInTheChain) {
  const Action send{.kind = ActionKind::send_forward, .stage = 2, .microbatch = 3, .peer = 3};
  EXPECT_EQ(to_text(send), "2SEND_F3");
  EXPECT_EQ(only_action("2SEND_F3>3"), send);
  EXPECT_EQ(only_action("2SEND_F3").peer, 3);
  EXPECT_EQ(only_action("2SEND_B3").peer, 1);
  EXPECT_EQ(only_action("2RECV_F3").peer, 1);
  EXPECT_EQ(only_action("2RECV_B3").peer, 3);
  EXPECT_EQ(only_action("2F3").peer, kNoPeer);
}

TEST(Action, NeitherVersionNorOverlappedPartnerShows) {
  const Action action{
      .kind = ActionKind::backward, .overlaps_next = true, .stage = 4, .microbatch = 1, .weight_version = 7};
  EXPECT_EQ(to_text(action), "4B1");
}

int families_of(ActionKind kind) {
  return (has_weight_version(kind) ? 1 : 0) + (is_send(kind) ? 1 : 0) + (is_recv(kind) ? 1 : 0) +
         (is_send_wait(kind) ? 1 : 0) + (is_host_copy(kind) ? 1 : 0) + (has_microbatch(kind) ? 0 : 1);
}

TEST(Action, EveryKindIsOfOneFamily) {
  for (std::size_t i = 0; i < kActionKindCount; ++i) {
    const auto kind = static_cast<ActionKind>(i);
    EXPECT_EQ(families_of(kind), 1) << letters(kind);
    EXPECT_EQ(is_transfer(kind), chain_peer(kind, 1).has_value()) << letters(kind);
  }
}

TEST(Action, StepRunsOnTheComputeQueueAndUnshardAndReduceGradAreCollectives) {
  for (std::size_t i = 0; i < kActionKindCount; ++i) {
    const auto kind = static_cast<ActionKind>(i);
    EXPECT_EQ(is_compute(kind), has_weight_version(kind) || kind == ActionKind::step) << letters(kind);
    EXPECT_EQ(is_collective(kind), kind == ActionKind::unshard || kind == ActionKind::reduce_grad);
    EXPECT_EQ(gathers_or_drops(kind), kind == ActionKind::unshard || kind == ActionKind::reshard);
    EXPECT_EQ(is_wait(kind), letters(kind).starts_with("WAIT_"));
    if (is_wait(kind)) {
      EXPECT_EQ("WAIT_" + std::string(letters(awaited_kind(kind))), letters(kind));
    }
  }
}

TEST(ActionReader, ReadsOverlappedGroupsOfTwoAndMore) {
  const auto actions = read_actions(" 0F0 (0F5;3B2@1)OVERLAP_F_B (0F6; 3I3 ;3W3)OVERLAP_F_B ", {});
  ASSERT_TRUE(actions);
  std::vector<std::pair<std::string, bool>> read;
  for (const Action& action : *actions) read.emplace_back(to_text(action), action.overlaps_next);
  const std::vector<std::pair<std::string, bool>> expected = {{"0F0", false}, {"0F5", true}, {"3B2", false},
                                                              {"0F6", true},  {"3I3", true}, {"3W3", false}};
  EXPECT_EQ(read, expected);
  EXPECT_EQ((*actions)[2].weight_version, 1);
}

TEST(ActionReader, BlankTextHoldsNoActions) {
  for (const auto* const text : {"", " ", " \t "}) {
    const auto actions = read_actions(text, {});
    ASSERT_TRUE(actions);
    EXPECT_TRUE(actions->empty());
  }
}

TEST(ActionReader, FaultSaysWhereItIs) {
  const auto actions = read_actions("0F0 1F1 2Q2", {});
  ASSERT_FALSE(actions);
  EXPECT_EQ(actions.error().offset, 9U);
  EXPECT_EQ(actions.error().message,
            "unknown action `Q`. Known: F, B, I, W, R, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, "
            "REDUCE_GRAD, STEP, WAIT_SEND_F, WAIT_SEND_B, WAIT_REDUCE_GRAD, OFFLOAD, RELOAD");
}

TEST(ActionReader, NegativeAndSignedNumbersAreNoNumbers) {
  for (const auto* const text :
       {"-1F0", "0F-1", "+0F0", "0F0@-1", "0SEND_F0>-1", "0F", "F0", "(0F0;)OVERLAP_F_B"}) {
    EXPECT_FALSE(read_actions(text, {})) << text;
  }
}

TEST(ChannelModel, TextReadsBack) {
  for (const ChannelModel model : kChannelModels)
    EXPECT_EQ(enum_of_text<ChannelModel>(to_text(model)), model);
  EXPECT_EQ(to_text(ChannelModel::pair), "pair");
  EXPECT_EQ(enum_of_text<ChannelModel>("Pair"), std::nullopt);
  EXPECT_EQ(enum_of_text<ChannelModel>(""), std::nullopt);
}

std::string_view name(std::optional<Flow> flow) {
  if (!flow) return "-";
  return *flow == Flow::activation ? "activation" : "gradient";
}

/// Returns a text such as "B: gradient -> gradient after UNSHARD": what the kind needs, what it provides, and
/// for which collectives it waits.
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

// If the gradients of each microbatch are reduced separately, the next gradients are written to the same
// buffer.
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

/// Returns the two ends of a message and its edge, such as "1SEND_F5 2RECV_F5 over 1>2".
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

/// Returns the lives of all weight versions of a stage. `list` has the actions of this stage.
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

// Tests the numbers of edges and the sizes of messages.

constexpr Action kSend{.kind = ActionKind::send_forward, .stage = 0, .microbatch = 0, .peer = 1};
constexpr Action kGradient{.kind = ActionKind::recv_backward, .stage = 0, .microbatch = 0, .peer = 1};

Program chain() { return *generate("gpipe", {.stages = 3, .microbatches = 1}); }

/// Stage 0 sends to stages 1 and 2, and both send to stage 3.
Program diamond() {
  Program program = *generate("gpipe", {.stages = 4, .microbatches = 1});
  program.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  return program;
}

TEST(EdgeNumbers, AreThePlacesAmongTheStageEdges) {
  for (const Program& program : {chain(), diamond()}) {
    const EdgeNumbers edges(program);
    ASSERT_EQ(edges.edges(), stage_edges(program));
    for (std::size_t number = 0; number < edges.size(); ++number)
      EXPECT_EQ(edges.of(edges.edges()[number]), number);
  }
}

TEST(EdgeNumbers, OfAnEdgeThatIsNotThereIsAnErrorOfTheProgrammer) {
  const EdgeNumbers edges(diamond());
  EXPECT_THAT([&] { edges.of(StageEdge{.from = 0, .to = 3}); },
              testing::ThrowsMessage<std::logic_error>("the program has no stage edge 0>3"));
  EXPECT_THROW(edges.of(StageEdge{.from = 3, .to = 0}), std::logic_error);
}

TEST(TransferBytes, AreThoseOfTheEdgeAndItsDirection) {
  const Program program = diamond();
  CostTable costs = unit_costs(program);
  costs.edges[0] = {.activation = 5, .gradient = 7};
  const EdgeNumbers edges(program);
  EXPECT_EQ(transfer_bytes(costs, edges, kSend), 5);
  EXPECT_EQ(transfer_bytes(costs, edges, kGradient), 7);
}

TEST(TransferBytes, OfAnEdgeWithoutCostsAreAnErrorOfTheProgrammer) {
  const EdgeNumbers edges(chain());
  EXPECT_THAT([&] { transfer_bytes({.stages = {3, StageCost{}}, .edges = {}}, edges, kSend); },
              testing::ThrowsMessage<std::logic_error>(
                  "a cost table of 0 edges was given for a program of 2: every edge needs its bytes"));
}

TEST(UniformCosts, OfAChainHaveItsEdges) {
  const CostTable costs = uniform_costs(chain(), {.forward_ns = 3}, {.activation = 1, .gradient = 2});
  EXPECT_EQ(costs.stages.size(), 3U);
  ASSERT_EQ(costs.edges.size(), 2U) << "though the program leaves its edges to be the chain";
  EXPECT_EQ(costs.edges.back(), (EdgeCost{.activation = 1, .gradient = 2}));
}

/// Returns the number of microbatches in one iteration, and in one minibatch.
std::pair<std::int32_t, std::int32_t> microbatches_of(const std::string& schedule, const Shape& shape) {
  const Program program = *generate(schedule, shape);
  return {program.microbatches, microbatches_of_minibatch(program)};
}

TEST(Iterations, ASynchronousPassIsOneMinibatchOverAllReplicas) {
  EXPECT_EQ(microbatches_of("gpipe", {.stages = 2, .microbatches = 8, .iterations = 3}), std::pair(8, 8));
  EXPECT_EQ(microbatches_of("1f1b", {.stages = 2, .microbatches = 8, .data_parallel = 2}), std::pair(8, 8));
  EXPECT_EQ(microbatches_of("chimera", {.stages = 4, .microbatches = 8}), std::pair(8, 8));
  EXPECT_EQ(microbatches_of("seq-1f1b", {.stages = 2, .microbatches = 8, .slices = 4}), std::pair(8, 8));
}

TEST(Iterations, APassOfPipeDream2bwIsAStreamOfMinibatches) {
  EXPECT_EQ(microbatches_of("pipedream-2bw", {.stages = 2, .microbatches = 8, .iterations = 3}),
            std::pair(24, 8));
}

TEST(Iterations, EveryMicrobatchOfPipeDreamIsAMinibatch) {
  EXPECT_EQ(microbatches_of("1f1b-rr", {.stages = 2, .microbatches = 8, .iterations = 3}), std::pair(24, 1));
  EXPECT_EQ(microbatches_of("naive", {.stages = 2, .microbatches = 8, .update = UpdateRule::microbatch}),
            std::pair(8, 1));
}

}  // namespace
}  // namespace penstock
