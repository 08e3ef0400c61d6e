#include "schedules/ir/action.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/channel.hpp"
#include "schedules/text/action_reader.hpp"

namespace penstock {
namespace {

constexpr int kKinds = 13;

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
  };
  ASSERT_EQ(table.size(), kKinds);
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

// _Action round trips of pytorch's test/distributed/pipelining/test_schedule.py, and those of our own kinds.
TEST(Action, TextReadsBackAsTheSameText) {
  for (const auto* const text :
       {"1F0", "2I1", "0W3", "0B3", "1UNSHARD", "3RESHARD", "2SEND_B2", "1RECV_F1", "7R12", "2REDUCE_GRAD",
        "0STEP", "2SEND_F3>4", "5RECV_B0<9", "2147483646F2147483647"}) {
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
         (has_microbatch(kind) ? 0 : 1);
}

TEST(Action, EveryKindIsOfOneFamily) {
  for (int i = 0; i < kKinds; ++i) {
    const auto kind = static_cast<ActionKind>(i);
    EXPECT_EQ(families_of(kind), 1) << letters(kind);
    EXPECT_EQ(is_transfer(kind), chain_peer(kind, 1).has_value()) << letters(kind);
  }
}

TEST(Action, StepRunsOnTheComputeQueueAndUnshardAndReduceGradAreCollectives) {
  for (int i = 0; i < kKinds; ++i) {
    const auto kind = static_cast<ActionKind>(i);
    EXPECT_EQ(is_compute(kind), has_weight_version(kind) || kind == ActionKind::step) << letters(kind);
    EXPECT_EQ(is_collective(kind), kind == ActionKind::unshard || kind == ActionKind::reduce_grad);
    EXPECT_EQ(gathers_or_drops(kind), kind == ActionKind::unshard || kind == ActionKind::reshard);
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
            "REDUCE_GRAD, STEP");
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

}  // namespace
}  // namespace penstock
