// Tests programs with a known fault, and the smallest programs that still have this fault.

#include <rapidcheck.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/counterexample.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/schedules/held_back.hpp"
#include "tests/schedules/shapes.hpp"

namespace penstock {
namespace {

constexpr ChannelOptions kPair{.model = ChannelModel::pair};

Program lowered(const std::string& schedule, const Shape& shape) {
  return *lower(*generate(schedule, shape));
}

std::size_t position_of(const Program& program, std::int32_t rank, const std::string& action) {
  const auto& list = program.ranks[static_cast<std::size_t>(rank)];
  const auto found = std::ranges::find(list, action, [](const Action& a) { return to_text(a); });
  EXPECT_NE(found, list.end()) << action;
  return static_cast<std::size_t>(found - list.begin());
}

/// Returns a program with a fault: rank 1 sends its third activation to rank 2 before it receives the
/// gradient that rank 2 sends first.
Program with_a_late_receive() {
  Program program = lowered("1f1b", {.stages = 4, .microbatches = 8});
  auto& list = program.ranks[1];
  const std::size_t recv = position_of(program, 1, "1RECV_B0");
  const std::size_t send = position_of(program, 1, "1SEND_F3");
  const std::size_t compute = position_of(program, 1, "1B0");
  EXPECT_LT(recv, send);
  // This changes "... 1RECV_B0 1B0 ... 1F3 1SEND_F3" to "... 1F3 1SEND_F3 ... 1RECV_B0 1B0".
  const std::vector<Action> late = {list[recv], list[compute], list[position_of(program, 1, "1SEND_B0")]};
  std::erase_if(list, [&](const Action& a) { return std::ranges::find(late, a) != late.end(); });
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(position_of(program, 1, "1SEND_F3") + 1),
              late.begin(), late.end());
  return program;
}

/// Returns all excerpts without one rank, one stage or one microbatch.
std::vector<Excerpt> next_smaller(const Counterexample& found) {
  const Excerpt whole{.program = found.program, .costs = found.costs};
  std::vector<Excerpt> smaller;
  for (std::int32_t rank = 0; found.program.rank_count() > 1 && rank < found.program.rank_count(); ++rank) {
    smaller.push_back(without_stages_of(whole, rank));
    smaller.push_back(without_replicas_of(whole, rank));
    std::erase_if(smaller, [&](const Excerpt& rest) {
      return rest.program.rank_count() >= found.program.rank_count();
    });
  }
  for (std::int32_t stage = 0; found.program.stage_count() > 1 && stage < found.program.stage_count();
       ++stage)
    smaller.push_back(without_stage(whole, stage));
  for (std::int32_t m = 0; found.program.microbatches > 1 && m < found.program.microbatches; ++m) {
    smaller.push_back(without_microbatches(whole, m));
  }
  return smaller;
}

bool is_minimal(const Counterexample& found, const ChannelOptions& channels) {
  return std::ranges::none_of(next_smaller(found), [&](const Excerpt& rest) {
    return fault_of(rest.program, channels, rest.costs) == found.fault;
  });
}

Counterexample smallest(const Program& program, const ChannelOptions& channels = {}) {
  const CostTable costs = unit_costs(program);
  const auto fault = fault_of(program, channels, costs);
  EXPECT_TRUE(fault);
  auto found = smallest_counterexample(program, channels, costs);
  EXPECT_TRUE(found);
  EXPECT_EQ(fault_of(found->program, channels, found->costs), fault);
  EXPECT_TRUE(is_minimal(*found, channels)) << to_text(found->program);
  const auto read = parse_program(to_text(found->program), "it");
  EXPECT_TRUE(read) << read.error();
  EXPECT_EQ(*read, found->program);
  return *std::move(found);
}

TEST(Counterexample, OfALateReceiveIsTwoRanksAndTwoMicrobatches) {
  const Counterexample found = smallest(with_a_late_receive(), kPair);
  EXPECT_EQ(found.fault.kind, FaultKind::hang);
  EXPECT_EQ(to_text(found.program),
            "penstock program 1\n"
            "schedule custom\n"
            "microbatches 2\n"
            "stage 0: rank 0\n"
            "stage 1: rank 1\n"
            "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
            "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n");
}

TEST(Counterexample, OfMessagesThatCrossIsTwoRanksAndTwoMicrobatches) {
  Program program = lowered("gpipe", {.stages = 4, .microbatches = 8});
  auto& list = program.ranks[3];
  std::swap(list[position_of(program, 3, "3RECV_F3")], list[position_of(program, 3, "3RECV_F4")]);
  std::swap(list[position_of(program, 3, "3F3")], list[position_of(program, 3, "3F4")]);
  const ChannelOptions eager{.eager_bytes = 1 << 20};
  for (const ChannelOptions& channels : {ChannelOptions{}, eager}) {
    const Counterexample found = smallest(program, channels);
    EXPECT_EQ(found.fault.kind, FaultKind::crossed);
    EXPECT_EQ(to_text(found.program),
              "penstock program 1\n"
              "schedule custom\n"
              "microbatches 2\n"
              "stage 0: rank 0\n"
              "stage 1: rank 1\n"
              "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
              "rank 1: 1RECV_F1 1F1 1RECV_F0 1F0 1B0 1SEND_B0 1B1 1SEND_B1\n");
  }
}

/// Returns the lists of the smallest program that has the same fault as 1F1B of four stages and eight
/// microbatches after `plant` has changed it.
template <class Plant>
std::string smallest_lists(Plant plant, bool with_messages = false) {
  Program program = *generate("1f1b", {.stages = 4, .microbatches = 8});
  if (with_messages) program = *lower(program);
  plant(program);
  const Counterexample found = smallest(program);
  EXPECT_EQ(found.fault.kind, FaultKind::invalid);
  const std::string text = to_text(found.program);
  return text.substr(text.find("\nrank 0:") + 1);
}

TEST(Counterexample, OfAMissingForwardIsThatMicrobatchOnThatStage) {
  EXPECT_EQ(smallest_lists([](Program& program) {
              auto& list = program.ranks[2];
              list.erase(list.begin() + static_cast<std::ptrdiff_t>(position_of(program, 2, "2F5")));
            }),
            "rank 0: 0B0\n");
}

TEST(Counterexample, OfABackwardBeforeItsForwardIsThesePairAlone) {
  EXPECT_EQ(smallest_lists([](Program& program) {
              std::swap(program.ranks[3][position_of(program, 3, "3F4")],
                        program.ranks[3][position_of(program, 3, "3B4")]);
            }),
            "rank 0: 0B0 0F0\n");
}

TEST(Counterexample, OfAnActionThatComesTwiceIsOneMicrobatch) {
  EXPECT_EQ(smallest_lists([](Program& program) {
              auto& list = program.ranks[1];
              const Action again = list[position_of(program, 1, "1B2")];
              list.insert(list.end() - 3, again);
            }),
            "rank 0: 0F0 0B0 0B0\n");
}

TEST(Counterexample, OfAMessageWithAWrongPeerKeepsTheEdgeThatIsNotThere) {
  EXPECT_EQ(
      smallest_lists([](Program& program) { program.ranks[1][position_of(program, 1, "1SEND_F6")].peer = 3; },
                     true),
      "rank 0: 0F0 0SEND_F0>2 0RECV_B0 0B0\n"
      "rank 1: 1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0\n"
      "rank 2: 2RECV_F0 2F0 2B0 2SEND_B0\n");
}

TEST(Counterexample, OfAnActionOnAWrongRankIsTwoRanks) {
  EXPECT_EQ(smallest_lists([](Program& program) {
              const auto at = static_cast<std::ptrdiff_t>(position_of(program, 2, "2F5"));
              program.ranks[0].push_back(program.ranks[2][static_cast<std::size_t>(at)]);
              program.ranks[2].erase(program.ranks[2].begin() + at);
            }),
            "rank 0: 0F0\n"
            "rank 1: 0B0\n");
}

TEST(Counterexample, OfAnOrderThatCannotBeExecutedIsTwoRanksThatWaitForEachOther) {
  Program program = *generate("gpipe", {.stages = 4, .microbatches = 8});
  // Rank 1 needs the gradient of microbatch 5 before it runs forward 6, but rank 2 computes this gradient
  // only after it has received 6.
  const auto move_to_front = [&](std::int32_t rank, const std::string& action) {
    auto& list = program.ranks[static_cast<std::size_t>(rank)];
    const auto at = list.begin() + static_cast<std::ptrdiff_t>(position_of(program, rank, action));
    std::rotate(list.begin() + 6, at, at + 1);
  };
  move_to_front(1, "1B5");
  const Counterexample found = smallest(program);
  EXPECT_EQ(found.fault.kind, FaultKind::unexecutable);
  EXPECT_EQ(found.program.rank_count(), 2);
  EXPECT_EQ(found.program.microbatches, 2);
}

TEST(Counterexample, ForgetsIterationsAndBarriersThatDoNotMatter) {
  Program program = with_a_late_receive();
  program.iterations = 7;
  program.barrier = true;
  const Counterexample found = smallest(program, kPair);
  EXPECT_EQ(found.program.iterations, 1);
  EXPECT_FALSE(found.program.barrier);
}

TEST(Counterexample, OfSlicedSequencesHasFewerSlicesAndMicrobatches) {
  Program program = *generate("seq-1f1b", {.stages = 3, .microbatches = 4, .slices = 3});
  std::swap(program.ranks[2][position_of(program, 2, "2F7")],
            program.ranks[2][position_of(program, 2, "2B7")]);
  const Counterexample found = smallest(program);
  EXPECT_EQ(found.program.slices, 1);
  EXPECT_EQ(found.program.microbatches, 1);
}

TEST(Counterexample, OfReplicasKeepsTheOnesThatDisagree) {
  // The program is data parallelism on four ranks, and one rank reduces one stage less than the others.
  Program program = *generate("data-parallel", {.stages = 3, .microbatches = 8, .replicas = {4}});
  auto& list = program.ranks[3];
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(position_of(program, 2, "1REDUCE_GRAD")));
  const Counterexample found = smallest(program);
  EXPECT_EQ(found.program.rank_count(), 2);
  EXPECT_EQ(found.program.stage_count(), 1);
  EXPECT_EQ(found.program.microbatches, 1) << "a replica without microbatches reduces, too";
}

/// Returns the lists of the smallest program that has the same fault as interleaved 1F1B of four ranks with
/// PyTorch's sharding after `plant` has changed it.
template <class Plant>
std::string smallest_sharded_lists(Plant plant) {
  const Shape shape{.stages = 4, .microbatches = 8, .virtual_stages = 2};
  Program program = *lower(insert_reduce_grad(insert_unshard_reshard(*generate("interleaved", shape))));
  EXPECT_TRUE(validate(program));
  plant(program.ranks[2], [&](const std::string& action) {
    return program.ranks[2].begin() + static_cast<std::ptrdiff_t>(position_of(program, 2, action));
  });
  const Counterexample found = smallest(program);
  EXPECT_EQ(found.fault.kind, FaultKind::invalid);
  const std::string text = to_text(found.program);
  return text.substr(text.find("\nrank 0:") + 1);
}

TEST(Counterexample, OfAnEarlyReductionIsOneStageWithTheBackwardThatItMisses) {
  EXPECT_EQ(smallest_sharded_lists([](auto& list, auto at) {
              std::rotate(at("6B7"), at("6REDUCE_GRAD"), at("6REDUCE_GRAD") + 1);
              EXPECT_LT(at("6REDUCE_GRAD"), list.end());
            }),
            "rank 0: 0F0 0REDUCE_GRAD 0B0\n");
}

TEST(Counterexample, OfAForwardBeforeItsGatherIsThatStageAndOneMicrobatch) {
  EXPECT_EQ(smallest_sharded_lists([](auto&, auto at) {
              const auto gather = at("6UNSHARD");
              std::rotate(gather, gather + 1, at("6F0") + 1);
            }),
            "rank 0: 0F0 0UNSHARD 0B0\n");
}

TEST(Counterexample, OfAReductionThatOneStageLacksIsTwoStages) {
  EXPECT_EQ(smallest_sharded_lists([](auto& list, auto at) { list.erase(at("2REDUCE_GRAD")); }),
            "rank 0: 0F0 1F0 1B0 1REDUCE_GRAD 0B0\n");
}

TEST(Counterexample, OfAnEagerSizeKeepsTheMessagesThatAreNotEager) {
  const Program program = with_a_late_receive();
  CostTable costs = unit_costs(program);
  for (std::int32_t stage = 0; stage < 3; ++stage) {
    const Bytes bytes = stage == 1 ? 100 : 1;
    costs.edges[static_cast<std::size_t>(stage)] = {.activation = bytes, .gradient = bytes};
  }
  const ChannelOptions eager{.model = ChannelModel::pair, .eager_bytes = 50};
  const auto found = smallest_counterexample(program, eager, costs);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->program.rank_count(), 2);
  EXPECT_EQ(found->costs.edges.front().activation, 100);
  costs.edges[1].activation = costs.edges[1].gradient = 1;
  EXPECT_FALSE(fault_of(program, eager, costs)) << "everything is eager";
}

TEST(Counterexample, NamesTheRuleWithoutItsNumbers) {
  Program program = *generate("1f1b", {.stages = 2, .microbatches = 12});
  std::erase_if(program.ranks[1], [](const Action& a) { return to_text(a) == "1B11"; });
  EXPECT_EQ(fault_of(program, {}, {})->rule,
            "rank #: #B# is missing, every F must have a B, or an I and a W");
}

// This schedule is safe and hangs only because the capacity is too small. It must not shrink to a program
// with crossed messages.
TEST(Counterexample, OfASmallCapacityIsStillMendedByALargerOne) {
  const Program program = lowered("interleaved", {.stages = 4, .microbatches = 8, .virtual_stages = 2});
  const ChannelOptions tight{.model = ChannelModel::rank, .capacity = 1};
  const Counterexample found = smallest(program, tight);
  EXPECT_EQ(found.fault.kind, FaultKind::hang);
  EXPECT_EQ(found.fault.rule, "pair channels; unlimited capacity");
  EXPECT_FALSE(fault_of(found.program, {.model = ChannelModel::rank}, found.costs));
  EXPECT_LT(found.program.rank_count() * found.program.microbatches, 4 * 8);
}

// A program that does not hang on its channels can hang if launches start in their order
// (launch_order_test.cpp).
TEST(Counterexample, OfAHangInLaunchOrderHangsInLaunchOrderOnly) {
  const ChannelOptions ordered{.launch_order = true};
  const Counterexample found = smallest(held_back(), ordered);
  EXPECT_EQ(found.fault.kind, FaultKind::hang);
  EXPECT_EQ(found.fault.rule, "no launch order");
  EXPECT_FALSE(fault_of(found.program, {}, found.costs));
  EXPECT_LE(found.program.microbatches, held_back().microbatches);
}

/// Returns one of several schedules with different placements, with one random fault.
Program random_program() {
  const auto schedule =
      *rc::gen::element<std::string>("gpipe", "1f1b", "1f1b-rr", "interleaved", "zb-h1", "v-min", "chimera",
                                     "dualpipe-v", "data-parallel", "seq-1f1b");
  Shape shape{.stages = *rc::gen::inRange(1, 5), .microbatches = *rc::gen::inRange(1, 9)};
  if (schedule == "interleaved") shape.virtual_stages = *rc::gen::inRange(1, 3);
  if (schedule == "seq-1f1b") shape.slices = *rc::gen::inRange(1, 4);
  auto program = generate(schedule, shape);
  RC_PRE(program.has_value());
  if (*rc::gen::arbitrary<bool>()) program = lower(*program);
  for (auto& list : program->ranks) {
    RC_PRE(!list.empty());
  }
  const auto place = [&] {
    const auto rank = *rc::gen::inRange<std::size_t>(0, program->ranks.size());
    return std::pair(rank, *rc::gen::inRange<std::size_t>(0, program->ranks[rank].size()));
  };
  const auto [rank, position] = place();
  auto& list = program->ranks[rank];
  const auto at = list.begin() + static_cast<std::ptrdiff_t>(position);
  // An action is missing, appears twice, is at a wrong position, names a stage that may not exist, or uses
  // another weight version.
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
      list.erase(at);
      break;
    case 1:
      list.insert(at, Action(*at));
      break;
    case 2: {
      const auto [other_rank, other] = place();
      std::swap(*at, program->ranks[other_rank][other]);
      break;
    }
    case 3:
      at->stage = *rc::gen::inRange(0, program->stage_count() + 2);
      break;
    default:
      at->weight_version += has_weight_version(at->kind) ? 1 : 0;
      break;
  }
  return *std::move(program);
}

TEST(Counterexample, OfAnyFaultFailsAlikeAndIsMinimal) {
  std::int64_t faults = 0;
  const bool holds = rc::check("a counterexample fails alike, is no larger and is minimal", [&] {
    const Program program = random_program();
    const ChannelOptions channels{
        .model = *rc::gen::elementOf(std::vector(kChannelModels.begin(), kChannelModels.end())),
        .blocking = *rc::gen::element(Blocking::none, Blocking::each)};
    const CostTable costs = unit_costs(program);
    const auto fault = fault_of(program, channels, costs);
    RC_PRE(fault.has_value());
    ++faults;
    const auto found = smallest_counterexample(program, channels, costs);
    RC_ASSERT(found.has_value());
    RC_ASSERT(fault_of(found->program, channels, found->costs) == fault);
    RC_ASSERT(found->program.rank_count() <= program.rank_count());
    RC_ASSERT(found->program.microbatches <= program.microbatches);
    RC_ASSERT(is_minimal(*found, channels));
  });
  EXPECT_TRUE(holds);
  EXPECT_GE(faults, 50);
}

TEST(Counterexample, IsThereOnlyForAProgramWithAFault) {
  const Program program = lowered("1f1b", {.stages = 4, .microbatches = 8});
  EXPECT_FALSE(fault_of(program, {}, unit_costs(program)));
  EXPECT_FALSE(smallest_counterexample(program, {}, unit_costs(program)));
  const Program crossed = with_a_late_receive();
  EXPECT_FALSE(smallest_counterexample(crossed, {}, unit_costs(crossed))) << "safe under directed channels";
}

// Tests that the remaining part of a valid program is valid after parts were removed.

Excerpt excerpt_of(const std::string& schedule, const Shape& shape) {
  const Program program = *lower(*generate(schedule, shape));
  CostTable costs{.stages = unit_costs(program).stages, .edges = {}};
  for (const StageEdge& edge : stage_edges(program)) {
    costs.edges.push_back({.activation = 10 * (edge.from + 1), .gradient = edge.from + 1});
  }
  return {.program = program, .costs = costs};
}

/// Returns only the lists, one line for each rank.
std::string lists(const Excerpt& excerpt) {
  const std::string text = to_text(excerpt.program);
  return text.substr(text.find("\nrank 0:") + 1);
}

/// Checks that the excerpt is valid and can be lowered. It may need other channels than before, because two
/// messages become one.
void expect_sound(const Excerpt& excerpt) {
  const auto valid = validate(excerpt.program);
  ASSERT_TRUE(valid) << valid.error() << to_text(excerpt.program);
  EXPECT_FALSE(find_hang(excerpt.program, {.model = ChannelModel::boundary}, excerpt.costs));
}

TEST(Excerpt, WithoutAStageTiesItsNeighboursTogether) {
  const Excerpt rest = without_stage(excerpt_of("gpipe", {.stages = 3, .microbatches = 1}), 1);
  EXPECT_EQ(lists(rest),
            "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP\n"
            "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n");
  ASSERT_EQ(rest.costs.edges.size(), 1U);
  EXPECT_EQ(rest.costs.edges.front(), (EdgeCost{.activation = 20, .gradient = 2}))
      << "the larger message of the two";
  EXPECT_EQ(rest.costs.stages.size(), 2U);
}

TEST(Excerpt, WithoutAStageSendsFromWhereThatStageHadItsInput) {
  // Stages 0 and 2 are on rank 0, and 1 and 3 are on rank 1. Without stage 1, stages 0 and 2 are neighbours
  // on one rank.
  const Excerpt whole = excerpt_of("interleaved", {.stages = 2, .microbatches = 1, .virtual_stages = 2});
  EXPECT_EQ(lists(without_stage(whole, 1)),
            "rank 0: 0F0 1F0 1SEND_F0 1RECV_B0 1B0 0B0 0STEP 1STEP\n"
            "rank 1: 2RECV_F0 2F0 2B0 2SEND_B0 2STEP\n");
  // The placement is a V: stages 0 and 3 are on rank 0, and 1 and 2 are on rank 1.
  const Excerpt v = excerpt_of("1f1b-v", {.stages = 2, .microbatches = 1});
  EXPECT_EQ(lists(without_stage(v, 2)),
            "rank 0: 0F0 0SEND_F0 2RECV_F0 2F0 2B0 2SEND_B0 0RECV_B0 0B0 0STEP 2STEP\n"
            "rank 1: 1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0 1STEP\n");
}

TEST(Excerpt, WithoutALeafLeavesTheRestOfItsGroup) {
  const Program program = *parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\n"
      "rank 0: 0F0 (0F1;0B0)OVERLAP_F_B 0B1\n",
      "it");
  EXPECT_EQ(lists(without_microbatches({.program = program, .costs = unit_costs(program)}, 0)),
            "rank 0: 0F0 0B0\n");
  EXPECT_EQ(lists(without_action({.program = program, .costs = unit_costs(program)}, 0, 1)),
            "rank 0: 0F0 0B0 0B1\n");
}

TEST(Excerpt, WithoutAMicrobatchTakesAlongItsUpdate) {
  const Excerpt whole = excerpt_of("1f1b-rr", {.stages = 2, .microbatches = 4});
  EXPECT_EQ(lists(whole).substr(0, lists(whole).find('\n')),
            "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0STEP 0F2@1 0SEND_F2 0RECV_B1 0B1 0STEP 0F3@2 "
            "0SEND_F3 0RECV_B2 0B2@1 0STEP 0RECV_B3 0B3@2 0STEP");
  const Excerpt rest = without_microbatches(whole, 1);
  EXPECT_EQ(
      lists(rest).substr(0, lists(rest).find('\n')),
      "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP 0F1@1 0SEND_F1 0F2@1 0SEND_F2 0RECV_B1 0B1@1 0STEP 0RECV_B2 "
      "0B2@1 0STEP");
  expect_sound(rest);
}

TEST(Excerpt, OfEverySoundScheduleIsSound) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    SCOPED_TRACE(schedule.name);
    Shape shape{.stages = 4, .microbatches = 8};
    shape.virtual_stages = chunks_to_try(schedule);
    const Excerpt whole = excerpt_of(std::string(schedule.name), shape);
    for (std::int32_t stage = 0; stage < whole.program.stage_count(); ++stage) {
      expect_sound(without_stage(whole, stage));
    }
    for (std::int32_t rank = 0; rank < whole.program.rank_count(); ++rank) {
      if (whole.program.placement.stages[0].ranks.size() == 1) expect_sound(without_stages_of(whole, rank));
    }
    for (std::int32_t m = 0; m < whole.program.microbatches; ++m)
      expect_sound(without_microbatches(whole, m));
  }
}

TEST(Excerpt, WithoutAReplicaLosesItsMicrobatches) {
  const Excerpt whole = excerpt_of("data-parallel", {.stages = 2, .microbatches = 5, .replicas = {3}});
  const Excerpt rest = without_replicas_of(whole, 1);
  EXPECT_EQ(rest.program.rank_count(), 2);
  EXPECT_EQ(rest.program.microbatches, 3) << "0, 2 and 3 stay";
  EXPECT_EQ(lists(rest),
            "rank 0: 0F0 1F0 1B0 0B0 0F2 1F2 1B2 1REDUCE_GRAD 0B2 0REDUCE_GRAD 1STEP 0STEP\n"
            "rank 1: 0F1 1F1 1B1 1REDUCE_GRAD 0B1 0REDUCE_GRAD 1STEP 0STEP\n");
  expect_sound(rest);
}

TEST(Excerpt, WithoutASliceKeepsTheOthers) {
  const Excerpt rest =
      without_slice(excerpt_of("seq-1f1b", {.stages = 2, .microbatches = 2, .slices = 3}), 1);
  EXPECT_EQ(rest.program.slices, 2);
  EXPECT_EQ(rest.program.microbatches, 2);
  expect_sound(rest);
}

TEST(Excerpt, OfBrokenNumbersIsStillAProgram) {
  Program program = *generate("1f1b", {.stages = 2, .microbatches = 2});
  program.ranks[0][0].stage = 9;
  program.ranks[1][0].microbatch = 77;
  program.placement.stages[1].route = {5};
  const Excerpt whole{.program = program, .costs = unit_costs(program)};
  EXPECT_EQ(without_stage(whole, 0).program.ranks[0][0].stage, 8) << "beyond the last one stays beyond it";
  EXPECT_EQ(without_microbatches(whole, 0).program.ranks[1][0].microbatch, 76);
  program.microbatches = -1;
  EXPECT_EQ(without_slice({.program = program, .costs = unit_costs(program)}, 0).program.ranks,
            program.ranks);
}

}  // namespace
}  // namespace penstock
