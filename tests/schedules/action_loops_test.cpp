// Tests lists that are stored as loops. They check that loops yield the right actions, and that loops are
// found in the lists of every generator without a change. They also check that the loops that rules write
// yield the same lists as the rules' plain lists.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

std::string words(const ActionLoops& list) {
  std::string text;
  for (const Action& action : list) text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

/// Returns the loops as text: "2 x [0F0], 3 x [0F2 0B0]". A loop of several runs is in parentheses.
std::string loops_in_words(const ActionLoops& list) {
  std::string text;
  for (const RunLoop& loop : list.loops()) {
    if (!text.empty()) text += ", ";
    if (loop.count > 1) text += std::to_string(loop.count) + " x (";
    for (const ActionRun& run : loop.runs) {
      if (&run != &loop.runs.front()) text += ", ";
      text += std::to_string(run.count) + " x [";
      for (const PatternAction& here : run.pattern)
        text += (&here == run.pattern.data() ? "" : " ") + to_text(here.action);
      text += "]";
    }
    if (loop.count > 1) text += ")";
  }
  return text;
}

TEST(ActionLoops, AnEmptyListHasNothing) {
  const ActionLoops none;
  EXPECT_TRUE(none.begin().at_end());
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(loops_of({}), none);
  ActionLoops no_times;
  no_times.repeat({forward(0, 0)}, 0);
  EXPECT_TRUE(no_times.empty());
}

TEST(ActionLoops, StandForOneForwardOneBackward) {
  ActionLoops list;
  list.repeat({forward(0, 0)}, 2);
  list.repeat({forward(0, 2), backward(0, 0)}, 3);
  list.repeat({backward(0, 3)}, 2);
  list.append(whole_stage(ActionKind::step, 0));
  EXPECT_EQ(words(list), "0F0 0F1 0F2 0B0 0F3 0B1 0F4 0B2 0B3 0B4 0STEP");
  EXPECT_EQ(list.size(), 11);
  EXPECT_EQ(list.stored(), 5);
}

TEST(ActionLoops, CompareAsActions) {
  ActionLoops rolled;
  rolled.repeat({forward(0, 0)}, 3);
  ActionLoops plain;
  for (std::int32_t m = 0; m < 3; ++m) plain.append(forward(0, m));
  EXPECT_EQ(rolled, plain);
  plain.append(forward(0, 3));
  EXPECT_NE(rolled, plain);
  EXPECT_NE(plain, rolled);
}

TEST(ActionLoops, AreFoundInTheListsOfOneForwardOneBackward) {
  const Program program = *generate("1f1b", {.stages = 3, .microbatches = 6});
  EXPECT_EQ(loops_in_words(loops_of(program.ranks[0])), "3 x [0F0], 3 x [0B0 0F3], 3 x [0B3], 1 x [0STEP]");
  EXPECT_EQ(loops_in_words(loops_of(program.ranks[2])), "6 x [2F0 2B0], 1 x [2STEP]");
}

TEST(ActionLoops, AreFoundInLoopsOfLoops) {
  std::vector<Action> list;
  for (std::int32_t group = 0; group < 5; ++group) {
    for (std::int32_t m = 0; m < 24; ++m) list.push_back(forward(0, 24 * group + m));
    for (std::int32_t m = 0; m < 24; ++m) list.push_back(forward(2, 24 * group + m));
  }
  const ActionLoops loops = loops_of(list);
  EXPECT_EQ(loops_in_words(loops), "5 x (24 x [0F0], 24 x [2F0])");
  EXPECT_EQ(actions_of(loops), list);
}

TEST(ActionLoops, VersionsMoveEachAtTheirOwnPace) {
  std::vector<Action> list;
  for (std::int32_t m = 0; m < 6; ++m) {
    list.push_back(forward(0, m + 2, m));
    list.push_back(backward(0, m, 7));
  }
  const ActionLoops loops = loops_of(list);
  EXPECT_EQ(loops.stored(), 2);
  EXPECT_EQ(actions_of(loops), list);
}

TEST(ActionLoops, ACursorSkipsRepetitions) {
  ActionLoops list;
  list.append({.runs = {{.pattern = {{.action = forward(0, 0), .version_step = 1, .outer_version_step = 10}},
                         .count = 4,
                         .step = 1}},
               .count = 3,
               .step = 4});
  LoopCursor cursor = list.begin();
  cursor.skip(2, 1);
  EXPECT_EQ(*cursor, forward(0, 6, 12));
  EXPECT_EQ(cursor.passed(), 6);
  EXPECT_EQ(list.size(), 12);
}

std::vector<Shape> shapes_of(const ScheduleInfo& schedule) {
  std::vector<Shape> shapes;
  for (const std::int32_t stages : {1, 2, 3, 4, 6, 8}) {
    for (const std::int32_t microbatches : {1, 2, 3, 5, 8, 13, 16, 24, 31}) {
      const Shape plain{.stages = stages, .microbatches = microbatches};
      shapes.push_back(plain);
      const auto add = [&](const auto& change) {
        shapes.push_back(plain);
        change(shapes.back());
      };
      if (schedule.chunks == 0) {
        for (const std::int32_t chunks : {2, 3, 5}) add([&](Shape& shape) { shape.virtual_stages = chunks; });
        add([&](Shape& shape) { shape.virtual_stages = 2, shape.group_size = stages + 1; });
      }
      add([](Shape& shape) { shape.replicas = {2}; });
      add([](Shape& shape) { shape.backward_order = BackwardOrder::lifo; });
      add([](Shape& shape) { shape.update = UpdateRule::microbatch; });
      add([](Shape& shape) { shape.checkpoint = Checkpoint::except_last; });
      add([](Shape& shape) { shape.weights = WeightPolicy::vertical_sync; });
      add([](Shape& shape) { shape.weights = WeightPolicy::latest; });
      add([](Shape& shape) { shape.warmup = {2}, shape.iterations = 2; });
      add([](Shape& shape) { shape.data_parallel = 2; });
    }
  }
  return shapes;
}

/// Calls `check(shape, program)` for all shapes that the schedule accepts, and returns the number of these
/// shapes.
template <class Check>
int for_all_shapes(const ScheduleInfo& schedule, const Check& check) {
  int taken = 0;
  for (const Shape& shape : shapes_of(schedule)) {
    const auto program = generate(schedule.name, shape);
    if (!program) continue;
    SCOPED_TRACE(testing::Message() << schedule.name << " K=" << shape.stages << " M=" << shape.microbatches
                                    << " v=" << shape.virtual_stages << " warmup "
                                    << testing::PrintToString(shape.warmup));
    check(shape, *program);
    if (testing::Test::HasFailure()) return taken;
    ++taken;
  }
  return taken;
}

TEST(ActionLoops, StandForTheListsOfEveryGenerator) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int taken = for_all_shapes(schedule, [](const Shape&, const Program& program) {
      EXPECT_EQ(unrolled(rolled(program)), program);
    });
    EXPECT_GT(taken, 10) << schedule.name;
  }
}

TEST(ActionLoops, StandForRandomLists) {
  for (std::uint32_t seed = 1; seed <= 500; ++seed) {
    const Program program = random_experiment(seed).program;
    ASSERT_EQ(unrolled(rolled(program)), program) << "seed " << seed;
  }
}

TEST(ActionLoops, OfEveryGeneratorDoNotGrowWithTheMicrobatches) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.name == "data-parallel" || schedule.weighs_costs) continue;
    const auto stored = [&](std::int32_t microbatches) {
      const auto generated =
          generate(schedule.name,
                   {.stages = 4, .microbatches = microbatches, .virtual_stages = chunks_to_try(schedule)});
      const RolledProgram program = rolled(generated.value());
      std::int64_t most = 0;
      for (const ActionLoops& list : program.lists) most = std::max(most, list.stored());
      return most;
    };
    EXPECT_LE(stored(512), stored(128) + 8) << schedule.name;
  }
}

TEST(DeclaredLoops, AreTheListsThatARuleSpellsOut) {
  int declared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.declare == nullptr) continue;
    ++declared;
    const int taken = for_all_shapes(schedule, [&](const Shape& shape, const Program& program) {
      const auto loops = generate_loops(schedule.name, shape);
      ASSERT_TRUE(loops) << loops.error();
      EXPECT_EQ(unrolled(*loops), program);
    });
    EXPECT_GT(taken, 50) << schedule.name;
  }
  EXPECT_EQ(declared, 9);
}

TEST(DeclaredLoops, StayShortWhereMicrobatchesAreMany) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.declare == nullptr) continue;
    Shape shape{.stages = 64, .microbatches = 65'536};
    if (schedule.name == "interleaved") shape.virtual_stages = 2;
    const auto loops = generate_loops(schedule.name, shape);
    ASSERT_TRUE(loops) << schedule.name << ": " << loops.error();
    for (const ActionLoops& list : loops->lists) {
      EXPECT_GE(list.size(), std::int64_t{2} * 65'536);
      EXPECT_LE(list.stored(), 200) << schedule.name;
    }
  }
}

TEST(DeclaredLoops, HaveMoreActionsThan32BitsCount) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.declare == nullptr) continue;
    Shape shape{.stages = 2, .microbatches = 1 << 30};
    // With four chunks, a rank has 2^32 forwards.
    if (schedule.name == "interleaved") shape.virtual_stages = 4;
    const auto loops = generate_loops(schedule.name, shape);
    ASSERT_TRUE(loops) << schedule.name << ": " << loops.error();
    const std::int64_t of_a_rank = std::int64_t{2} * shape.microbatches * shape.virtual_stages;
    for (const ActionLoops& list : loops->lists) {
      EXPECT_GE(list.size(), of_a_rank) << schedule.name;
      EXPECT_LE(list.stored(), 200) << schedule.name;
    }
  }
}

Program two_ranks() {
  return parse_program(
             "penstock program 1\nschedule custom\nmicrobatches 1\nstage 0: rank 0\nstage 1: rank 1\n"
             "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP\nrank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n",
             "digest_test")
      .value();
}

// Results and baselines are stored in files. The digest of a program must therefore never change.
TEST(Digest, IsTheSameOnEveryMachine) { EXPECT_EQ(digest(two_ranks()), "9892a02934d6601264b0d4f03ba59783"); }

TEST(Digest, OfListsThatAreToldIsThatOfTheProgram) {
  const Program program = two_ranks();
  Program without = program;
  for (std::vector<Action>& list : without.ranks) list.clear();
  DigestOfLists told(without);
  for (const std::vector<Action>& list : program.ranks) {
    told.begin_list(list.size());
    for (const Action& action : list) told.add(action);
  }
  EXPECT_EQ(std::move(told).text(), digest(program));
}

TEST(Digest, ListsDoNotRunIntoEachOther) {
  Program moved = two_ranks();
  moved.ranks[1].insert(moved.ranks[1].begin(), moved.ranks[0].back());
  moved.ranks[0].pop_back();
  EXPECT_NE(digest(moved), digest(two_ranks()));
}

TEST(Digest, EveryFieldCounts) {
  const std::vector<std::function<void(Program&)>> changes = {
      [](Program& program) { program.schedule = "1f1b"; },
      [](Program& program) { program.microbatches = 2; },
      [](Program& program) { program.slices = 2; },
      [](Program& program) { program.iterations = 2; },
      [](Program& program) { program.barrier = true; },
      [](Program& program) { program.mixed_versions = true; },
      [](Program& program) { program.update = UpdateRule::double_buffered; },
      [](Program& program) { program.recompute = RecomputeTiming::late; },
      [](Program& program) { program.sharding = 1; },
      [](Program& program) { program.channel = ChannelModel::rank; },
      [](Program& program) { program.placement.stages[1].ranks[0] = 0; },
      [](Program& program) { program.placement.stages[1].route = {0, 0}; },
      [](Program& program) { program.edges = {{0, 1}}; },
      [](Program& program) { program.ranks.emplace_back(); },
      [](Program& program) { program.ranks[0][0].kind = ActionKind::recompute; },
      [](Program& program) { program.ranks[0][0].stage = 1; },
      [](Program& program) { program.ranks[0][0].microbatch = 1; },
      [](Program& program) { program.ranks[0][0].weight_version = 1; },
      [](Program& program) { program.ranks[0][0].overlaps_next = true; },
      [](Program& program) { program.ranks[0][1].peer = 0; },
  };
  std::set<std::string> digests{digest(two_ranks())};
  for (const auto& change : changes) {
    Program program = two_ranks();
    change(program);
    digests.insert(digest(program));
  }
  EXPECT_EQ(digests.size(), changes.size() + 1);
}

TEST(LoweredDigest, IsThatOfTheLoweredListsOfEveryGenerator) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int before = compared;
    for (const std::int32_t stages : {1, 2, 3, 4}) {
      for (const std::int32_t microbatches : {1, 2, 4, 7, 12}) {
        const auto program = generate(
            schedule.name,
            {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks_to_try(schedule)});
        if (!program) continue;
        SCOPED_TRACE(testing::Message() << schedule.name << " K=" << stages << " M=" << microbatches);
        const RolledProgram loops = rolled(*program);
        EXPECT_EQ(lowered_digest(loops.program, loops.lists), digest(*lower(*program)));
        ++compared;
      }
    }
    EXPECT_GT(compared, before) << schedule.name;
  }
  EXPECT_GT(compared, 300);
}

TEST(LoweredDigest, ThereIsNoneOfAnOrderThatCannotBeExecuted) {
  const auto crossed = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 1\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0B0 0F0 0STEP\nrank 1: 1F0 1B0 1STEP\n",
      "crossed.psched");
  ASSERT_TRUE(crossed);
  const RolledProgram loops = rolled(*crossed);
  EXPECT_EQ(lowered_digest(loops.program, loops.lists), std::nullopt);
}

}  // namespace
}  // namespace penstock
