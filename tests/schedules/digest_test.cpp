#include "schedules/ir/digest.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/passes/lowered_digest.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/schedules/shapes.hpp"

namespace penstock {
namespace {

Program two_ranks() {
  return parse_program(
             "penstock program 1\nschedule custom\nmicrobatches 1\nstage 0: rank 0\nstage 1: rank 1\n"
             "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP\nrank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n",
             "digest_test")
      .value();
}

// Results and baselines are kept in files: the digest of a program must stay what it is.
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
