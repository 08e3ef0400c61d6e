// Tests transfers that a rank posts together, either because channels are batched or because lists state
// groups. Times are computed by hand. Other tests are about the positions of RECVs in the lists of rules, and
// about hangs. engines_test.cpp compares the engines with the reference on such programs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "report/timeline/timeline.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

constexpr ChannelOptions kBatched{.blocking = Blocking::batched};

Program program_of_text(const std::string& lists) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n" + lists,
      "lists.psched");
  EXPECT_TRUE(program) << program.error();
  return *program;
}

/// Returns the experiment of the program. F takes 10 and B takes 20. A message occupies its channel for 5 and
/// then takes a latency of `latency`.
Experiment experiment(const Program& program, const ChannelOptions& channels, Ns latency) {
  CostTable costs = uniform_costs(program, {.forward_ns = 10, .backward_ns = 20});
  for (EdgeCost& edge : costs.edges) edge = {.activation = 5, .gradient = 5};
  Experiment made = experiment_of(program, costs, uniform_links(program.rank_count(), 1e9, latency));
  made.channels = channels;
  return made;
}

/// Returns the starts and ends of the compute actions and SENDs of a run, such as "0F0 0..10".
std::vector<std::string> spans_of(const Timeline& timeline) {
  std::vector<std::string> spans;
  for (const Span& span : timeline.spans) {
    if (is_recv(span.action.kind) || span.action.kind == ActionKind::step) continue;
    spans.push_back(to_text(span.action) + " " + std::to_string(span.start_ns) + ".." +
                    std::to_string(span.end_ns));
  }
  return spans;
}

// Rank 0 posts 0SEND_F1 and 0RECV_B0 at 25, when 0F1 has ended. Rank 1 posts 1SEND_B0 and 1RECV_F1 at 45,
// when 1B0 has ended. So 0SEND_F1 starts only at 45, although rank 1 does not need it to compute 1B0.
//
//   rank 0  F0|SEND_F0|F1 (SEND_F1, RECV_B0)...............      B0====
//   rank 1    |RECV_F0|F0- B0====(SEND_B0, RECV_F1)              F1--
TEST(TransferGroups, StartWhenBothRanksHaveReachedThem) {
  const Program program = program_of_text(
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n");
  const std::vector<std::string> expected = {
      "0F0 0..10",  "0SEND_F0 10..16", "0F1 16..26",      "0SEND_F1 46..52", "0B0 52..72", "0B1 88..108",
      "1F0 16..26", "1B0 26..46",      "1SEND_B0 46..52", "1F1 52..62",      "1B1 62..82", "1SEND_B1 82..88"};
  for (const ChannelModel model : kChannelModels) {
    const ChannelOptions channels{.model = model, .blocking = Blocking::batched};
    const auto tape = critical_path(experiment(program, channels, 1));
    ASSERT_TRUE(tape) << tape.error().message;
    EXPECT_EQ(spans_of(*tape), expected) << to_text(model);
    const auto events = event_simulation(experiment(program, channels, 1));
    ASSERT_TRUE(events) << events.error().message;
    EXPECT_EQ(spans_of(*events), expected) << to_text(model);
  }
}

// The messages from rank 0 to rank 1 are sent one after the other. The gradient is sent at the same time.
TEST(TransferGroups, MessagesFromOneRankToAnotherFollowEachOther) {
  const Program program =
      program_of_text("rank 0: 0F0 0F1 0SEND_F0 0SEND_F1 0STEP\nrank 1: 1RECV_F0 1RECV_F1 1F0 1F1 1STEP\n");
  const auto timeline = critical_path(experiment(program, kBatched, 1));
  ASSERT_TRUE(timeline) << timeline.error().message;
  EXPECT_EQ(spans_of(*timeline), (std::vector<std::string>{"0F0 0..10", "0F1 10..20", "0SEND_F0 20..26",
                                                           "0SEND_F1 25..31", "1F0 31..41", "1F1 41..51"}));
}

// 64 MB at 25 GB/s take 2.56 ms. In the steady state, each microbatch needs two groups with two messages
// each, one in each direction. The figures were computed by hand and by another simulator.
TEST(TransferGroups, ATextbook1F1BTakesAsLongAsByHand) {
  const ChannelOptions channels = kBatched;
  const Program program = *lower(*generate("1f1b", {.stages = 8, .microbatches = 32}), channels);
  CostTable costs = uniform_costs(program, {.forward_ns = 10'000'000, .backward_ns = 20'000'000});
  for (EdgeCost& edge : costs.edges) edge = {.activation = 64'000'000, .gradient = 64'000'000};
  Experiment made = experiment_of(program, costs, uniform_links(8, 25e9, 10'000));
  made.channels = channels;
  EXPECT_EQ(makespan_ns(made), 1'362'750'000);
  made.cluster = uniform_links(8, 25e9, 0);
  EXPECT_EQ(makespan_ns(made), 1'362'000'000);
}

// Each rank sends before it receives. If the messages were single, the two ranks would wait for each other.
TEST(TransferGroups, TheOrderInsideAGroupCannotHang) {
  const Program program = program_of_text(
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n");
  for (const ChannelModel model : kChannelModels) {
    EXPECT_TRUE(find_hang(program, {.model = model, .blocking = Blocking::each}, unit_costs(program)));
    EXPECT_FALSE(find_hang(program, {.model = model, .blocking = Blocking::batched}, unit_costs(program)));
  }
}

// Rank 0 waits for its SEND of microbatch 1 together with the gradient of microbatch 0. Rank 1 receives
// microbatch 1 only after it has sent this gradient, but it needs microbatch 1 before it computes this
// gradient.
TEST(TransferGroups, AHangNamesTheMembersForWhichARankWaits) {
  const Program program = program_of_text(
      "rank 0: 0F0 0SEND_F0 0RECV_B0 0F1 0SEND_F1 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1STEP\n");
  const std::optional<Hang> hang = find_hang(program, kBatched, unit_costs(program));
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->message,
            "hangs under directed channels, batched; each of these waits for the next, the last for the "
            "first:\n"
            "  rank 0, position 1: 0SEND_F0 waits for 0RECV_B0 on rank 0, position 2\n"
            "  rank 0, position 2: 0RECV_B0 waits for 1SEND_B0 on rank 1, position 5\n"
            "  rank 1, position 5: 1SEND_B0 waits for 1RECV_F1 on rank 1, position 2\n"
            "  rank 1, position 2: 1RECV_F1 waits for 0SEND_F1 on rank 0, position 4\n"
            "  rank 0, position 4: 0SEND_F1 waits for 0SEND_F0 on rank 0, position 1");
}

// The collective does not divide the group, so 0SEND_F0 and 0RECV_B0 start together.
TEST(TransferGroups, ACollectiveDoesNotDivideAGroup) {
  const Program program = program_of_text(
      "rank 0: 0F0 0SEND_F0 0REDUCE_GRAD 0RECV_B0 0B0 0STEP\n"
      "rank 1: 1RECV_F0 1SEND_B0 1F0 1STEP\n");
  const auto timeline = critical_path(experiment(program, kBatched, 1));
  ASSERT_TRUE(timeline) << timeline.error().message;
  EXPECT_EQ(spans_of(*timeline),
            (std::vector<std::string>{"0F0 0..10", "0SEND_F0 10..16", "0REDUCE_GRAD 10..10", "0B0 16..36",
                                      "1SEND_B0 10..16", "1F0 16..26"}));
}

// A launch takes 4. The launches of F0, the group and B0 on rank 0 therefore end at 4, 8 and 12.
TEST(TransferGroups, AreLaunchedOnce) {
  const Program program = program_of_text(
      "rank 0: 0F0 0SEND_F0 0SEND_F1 0RECV_B0 0B0 0STEP\nrank 1: 1RECV_F0 1RECV_F1 1SEND_B0 1F0 1STEP\n");
  Experiment launching = experiment(program, kBatched, 0);
  launching.costs.launch.overhead_ns = 20;
  const std::vector<std::string> expected = {"0F0 20..30", "0SEND_F0 40..45", "0SEND_F1 45..50",
                                             "0B0 60..80", "1SEND_B0 40..45", "1F0 50..60"};
  EXPECT_EQ(spans_of(*critical_path(launching)), expected);
  EXPECT_EQ(spans_of(*event_simulation(launching)), expected);
}

/// Returns the RECVs that are not directly before the compute actions that need them. Other RECVs for the
/// same compute actions may be in between.
std::size_t early_receives(const Program& program) {
  std::size_t early = 0;
  for (const std::vector<Action>& list : program.ranks) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!is_recv(list[i].kind)) continue;
      std::size_t next = i + 1;
      while (next < list.size() && is_recv(list[next].kind)) ++next;
      bool is_next = false;
      for (std::size_t leaf = next; next < list.size() && leaf < group_end(list, next); ++leaf)
        is_next |= list[leaf].stage == list[i].stage && list[leaf].microbatch == list[i].microbatch;
      early += is_next ? 0 : 1;
    }
  }
  return early;
}

// All ranks run an F and then a B at the same time, and post their messages after the B. If links take no
// time, no rank waits longer than if its messages were issued ahead.
TEST(TransferGroups, InterleavedPostsItsMessagesAroundAnFAndABAsMegatronDoes) {
  const Program program = *generate("interleaved", {.stages = 4, .microbatches = 16, .virtual_stages = 2});
  Experiment made = uniform_experiment("interleaved", {.stages = 4, .microbatches = 16, .virtual_stages = 2},
                                       {.forward_ns = 10, .backward_ns = 20});
  const Ns ahead = makespan_ns(made);
  made.channels = kBatched;
  made.program = *lower(program, kBatched);
  EXPECT_EQ(makespan_ns(made), ahead);
}

TEST(TransferGroups, ListsOfRulesReceiveDirectlyBeforeTheConsumerAndNeverHang) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    std::size_t receives_early = 0;
    for (const std::int32_t stages : {2, 4}) {
      const auto program = generate(
          schedule.name, {.stages = stages, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)});
      if (!program) continue;
      for (const ChannelModel model : kChannelModels) {
        const ChannelOptions channels{.model = model, .blocking = Blocking::batched};
        const auto lowered = lower(*program, channels);
        ASSERT_TRUE(lowered) << schedule.name << ": " << lowered.error();
        EXPECT_FALSE(find_hang(*lowered, channels, unit_costs(*lowered))) << schedule.name;
        receives_early += early_receives(*lowered);
      }
    }
    if (schedule.name == "1f1b" || schedule.name == "gpipe" || schedule.name == "zb-h1") {
      EXPECT_EQ(receives_early, 0) << schedule.name;
    }
    RecordProperty(std::string(schedule.name), static_cast<int>(receives_early));
  }
}

// These are lists of 1F1B with two ranks. If their messages were single, the lists would hang with one queue
// for each pair of ranks.
TEST(TransferGroups, AStatedGroupIsOneEntryOfItsQueues) {
  const Program single = program_of_text(
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1STEP\n");
  const Program grouped = program_of_text(
      "rank 0: 0F0 0SEND_F0 0F1 (0SEND_F1;0RECV_B0)GROUP 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 (1SEND_B0;1RECV_F1)GROUP 1F1 1B1 1SEND_B1 1STEP\n");
  EXPECT_TRUE(find_hang(single, {.model = ChannelModel::pair}, unit_costs(single)));
  for (const ChannelModel model : kChannelModels) {
    for (const Blocking blocking : {Blocking::none, Blocking::each, Blocking::batched}) {
      const ChannelOptions channels{.model = model, .blocking = blocking};
      EXPECT_FALSE(find_hang(grouped, channels, unit_costs(grouped)));
      EXPECT_EQ(makespan_ns(experiment(grouped, channels, 1)), 108) << to_text(model);
    }
  }
}

// Rank 0 posts its group at 20 and starts F2 at once. The messages start at 45, when rank 1 posts its group,
// and B0 waits for its own RECV until 50. If rank 0 waits at its group, F2 starts at 50.
//
//   GROUP_NOWAIT   rank 0  F0--F1--F2--........B0======            1 character = 2.5
//   GROUP          rank 0  F0--F1--............F2--B0======
//                  rank 1        F0--B0======||F1--B1======
TEST(TransferGroups, ARankGoesOnAtOnceAtAGroupForWhichItDoesNotWait) {
  const auto program_of = [](const std::string& word) {
    const auto program = parse_program(
        "penstock program 1\nschedule custom\nmicrobatches 3\nstage 0: rank 0\nstage 1: rank 1\n"
        "rank 0: 0F0 0SEND_F0 0F1 (0SEND_F1;0RECV_B0)" +
            word +
            " 0F2 0SEND_F2 0B0 0RECV_B1 0B1 0RECV_B2 0B2 0STEP\n"
            "rank 1: 1RECV_F0 1F0 1B0 (1SEND_B0;1RECV_F1)GROUP 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1SEND_B2 "
            "1STEP\n",
        "no_wait.psched");
    EXPECT_TRUE(program) << program.error();
    EXPECT_EQ(*parse_program(to_text(*program), "again.psched"), *program);
    return *program;
  };
  const auto spans_of_rank_0 = [](const Experiment& experiment) {
    const auto tape = critical_path(experiment);
    const auto events = event_simulation(experiment);
    EXPECT_TRUE(tape && events);
    EXPECT_EQ(*tape, *events);
    std::vector<std::string> spans = spans_of(*tape);
    spans.resize(9);
    return spans;
  };
  const Program goes_on = program_of("GROUP_NOWAIT");
  EXPECT_EQ(
      spans_of_rank_0(experiment(goes_on, {}, 0)),
      (std::vector<std::string>{"0F0 0..10", "0SEND_F0 10..15", "0F1 10..20", "0SEND_F1 45..50", "0F2 20..30",
                                "0SEND_F2 50..55", "0B0 50..70", "0B1 85..105", "0B2 115..135"}));
  const std::vector<std::string> waiting = {"0F0 0..10",       "0SEND_F0 10..15", "0F1 10..20",
                                            "0SEND_F1 45..50", "0F2 50..60",      "0SEND_F2 60..65",
                                            "0B0 60..80",      "0B1 85..105",     "0B2 115..135"};
  EXPECT_EQ(spans_of_rank_0(experiment(program_of("GROUP"), {}, 0)), waiting);
  // A rank that waits for all its transfers also waits for the transfers of such groups.
  Experiment blocked = experiment(goes_on, {.blocking = Blocking::batched}, 0);
  EXPECT_EQ(spans_of_rank_0(blocked)[4], "0F2 50..60");
}

TEST(TransferGroups, MegatronPostsAnActivationTogetherWithAGradient) {
  const Program program = *lower(*generate("1f1b", {.stages = 3, .microbatches = 3}), kBatched);
  const std::string text = to_text(group_transfers(program, Posting::megatron));
  EXPECT_EQ(
      text.substr(text.find("rank 0:")),
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0F2 (0SEND_F2;0RECV_B0)GROUP 0B0 0RECV_B1 0B1 0RECV_B2 0B2 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 (1SEND_F1;1RECV_B0)GROUP 1B0 (1SEND_B0;1RECV_F2)GROUP 1F2 "
      "(1SEND_F2;1RECV_B1)GROUP 1B1 1SEND_B1 1RECV_B2 1B2 1SEND_B2 1STEP\n"
      "rank 2: 2RECV_F0 2F0 2B0 (2SEND_B0;2RECV_F1)GROUP 2F1 2B1 (2SEND_B1;2RECV_F2)GROUP 2F2 2B2 2SEND_B2 "
      "2STEP\n");
  EXPECT_EQ(*parse_program(text, "posts.psched"), group_transfers(program, Posting::megatron));
}

// Ranks 0 and 2 send first, and rank 1 receives first.
TEST(TransferGroups, MegatronOrdersItsSingleMessagesByTheParityOfTheRank) {
  const Program program = *lower(*generate("interleaved", {.stages = 4, .microbatches = 4}), kBatched);
  const Program posted = group_transfers(program, Posting::megatron_overlap);
  EXPECT_TRUE(validate(posted));
  for (std::int32_t rank = 0; rank < posted.rank_count(); ++rank) {
    const std::vector<Action>& list = posted.ranks[index(rank)];
    std::vector<Action> same = list;
    std::vector<Action> before = program.ranks[index(rank)];
    std::ranges::sort(same);
    std::ranges::sort(before);
    EXPECT_EQ(same, before) << "no action is added or lost";
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      EXPECT_FALSE(list[i].overlaps_next);
      if (!is_transfer(list[i].kind) || !is_transfer(list[i + 1].kind)) continue;
      const Flow flow = flow_of(list[i].kind);
      EXPECT_LE(flow, flow_of(list[i + 1].kind)) << to_text(list[i]);
      if (flow != flow_of(list[i + 1].kind) || is_send(list[i].kind) == is_send(list[i + 1].kind)) continue;
      EXPECT_EQ(is_send(list[i].kind), rank % 2 == 0) << to_text(list[i]);
    }
  }
  EXPECT_FALSE(find_hang(posted, {}, uniform_costs(posted, {.forward_ns = 1, .backward_ns = 2})));
}

// With two ranks, both neighbours of a rank are the same rank. The messages between the two ranks keep their
// order, which both ranks know.
TEST(TransferGroups, SingleMessagesBetweenTwoRanksDoNotOvertake) {
  for (const char* schedule : {"1f1b", "interleaved", "zbv-zero-bubble"}) {
    const Program program = *lower(*generate(schedule, {.stages = 2, .microbatches = 4}), kBatched);
    const Program posted = group_transfers(program, Posting::megatron_overlap);
    EXPECT_TRUE(validate(posted)) << schedule;
    EXPECT_FALSE(find_hang(posted, {}, uniform_costs(posted, {.forward_ns = 1, .backward_ns = 2})))
        << schedule;
  }
}

// Both forms of a list with groups take as long as batched transfers without groups in the list.
TEST(TransferGroups, ATextbook1F1BWithStatedGroupsTakesAsLong) {
  const Program program = *lower(*generate("1f1b", {.stages = 8, .microbatches = 32}), kBatched);
  CostTable costs = uniform_costs(program, {.forward_ns = 10'000'000, .backward_ns = 20'000'000});
  for (EdgeCost& edge : costs.edges) edge = {.activation = 64'000'000, .gradient = 64'000'000};
  for (const Posting posting : {Posting::batched, Posting::megatron}) {
    for (const Blocking blocking : {Blocking::none, Blocking::each}) {
      Experiment made =
          experiment_of(group_transfers(program, posting), costs, uniform_links(8, 25e9, 10'000));
      made.channels.blocking = blocking;
      EXPECT_EQ(makespan_ns(made), 1'362'750'000) << to_text(posting) << " " << to_text(blocking);
    }
  }
}

}  // namespace
}  // namespace penstock
