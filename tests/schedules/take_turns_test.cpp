// Tests placement rounds. Rounds that check only ranks that may be ready must place exactly the same as
// rounds that check all ranks. This is tested for every generator and for random programs. Some of the random
// programs have no common order of all ranks, or cannot be executed.

#include "schedules/passes/take_turns.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/polled_communication.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

Program lists_of(const std::string& stages_and_lists) {
  const auto program =
      parse_program("penstock program 1\nschedule custom\n" + stages_and_lists, "turns.psched");
  if (!program) throw std::runtime_error(program.error());
  return *program;
}

/// A sink that records every call as text.
struct Story {
  std::vector<std::string> told;

  void compute(std::int32_t rank, std::span<const Action> group) {
    std::string names;
    for (const Action& action : group) names += " " + to_text(action);
    told.push_back(fmt::format("{}:{}", rank, names));
  }
  void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    told.push_back(fmt::format("{}>{}: {}", from_rank, to_rank, to_text(send_of(message))));
  }
  void collective(std::int32_t rank, const Action& action) {
    told.push_back(fmt::format("{}: joins {}", rank, to_text(action)));
  }
};

TEST(TakeTurns, GoUpTheRanksRoundByRound) {
  const Program program = lists_of(
      "microbatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0F1 0B0 0B1 0STEP\n"
      "rank 1: 1F0 1B0 1F1 1B1 1STEP\n");
  Story story;
  const TurnsTaken taken = take_turns(program, story);
  EXPECT_TRUE(taken.finished);
  EXPECT_EQ(taken.stuck, "");
  EXPECT_THAT(story.told, testing::ElementsAre("0: 0F0", "0>1: 0SEND_F0", "1: 1F0",  // round 1
                                               "0: 0F1", "0>1: 0SEND_F1", "1: 1B0", "1>0: 1SEND_B0",  // 2
                                               "0: 0B0", "1: 1F1",                                    // 3
                                               "1: 1B1", "1>0: 1SEND_B1",                             // 4
                                               "0: 0B1", "1: 1STEP",                                  // 5
                                               "0: 0STEP"));                                          // 6
}

TEST(TakeTurns, APairsMessagesLeaveBehindBothLeaves) {
  const Program program = lists_of(
      "microbatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0F1 0B0 0B1 0STEP\n"
      "rank 1: 1F0 (1F1;1B0)OVERLAP_F_B 1B1 1STEP\n");
  Story story;
  ASSERT_TRUE(take_turns(program, story).finished);
  EXPECT_THAT(story.told, testing::IsSupersetOf({"1: 1F1 1B0", "1>0: 1SEND_B0"}));
}

TEST(TakeTurns, ACollectiveIsJoinedByAllMembersAtOnceOrEarlyWhereNoOrderIs) {
  const std::string head = "microbatches 2\nstage 0: ranks 0 1 route 0 1\nstage 1: rank 1\nstage 2: rank 0\n";
  Story story;
  TurnsTaken taken = take_turns(lists_of(head + "rank 0: 0F0 2F0 2B0 2F1 2B1 0B0 0REDUCE_GRAD 0STEP 2STEP\n"
                                                "rank 1: 1F0 0F1 1F1 1B0 1B1 0B1 0REDUCE_GRAD 0STEP 1STEP\n"),
                                story);
  EXPECT_TRUE(taken.finished);
  EXPECT_EQ(taken.stuck, "");
  const auto first = std::ranges::find(story.told, "0: joins 0REDUCE_GRAD");
  ASSERT_NE(first, story.told.end());
  EXPECT_EQ(*(first + 1), "1: joins 0REDUCE_GRAD");

  // Rank 1 reduces before it has computed the data for which rank 0 waits.
  taken = take_turns(lists_of(head + "rank 0: 0F0 2F0 2B0 2F1 2B1 0B0 0REDUCE_GRAD 0STEP 2STEP\n"
                                     "rank 1: 0F1 1F0 0REDUCE_GRAD 1F1 1B0 1B1 0B1 0STEP 1STEP\n"),
                     story = {});
  EXPECT_TRUE(taken.finished);
  EXPECT_THAT(taken.stuck,
              testing::HasSubstr("rank 1 at position 2: 0REDUCE_GRAD waits for the other ranks"));
}

/// Fails if lower() and the plain rounds give different results. Otherwise returns the outcome of both.
enum class Outcome { placed, placed_with_early_joins, refused };
Outcome same_as_polling(const Program& program) {
  const auto expected = polled_communication(program);
  const auto lowered = lower(program);
  if (!is_lowered(program)) {
    EXPECT_EQ(lowered, expected) << to_text(program);
  }
  Story story;
  const TurnsTaken taken = take_turns(program, story);
  if (!expected) {
    EXPECT_EQ(taken.stuck, expected.error());
    return Outcome::refused;
  }
  return taken.stuck.empty() ? Outcome::placed : Outcome::placed_with_early_joins;
}

/// Returns shapes to test. With K = 70, some ranks are in the second word of a RankSet. With unequal replicas
/// and buckets, ranks join collectives early.
std::vector<Shape> placed_shapes(const ScheduleInfo& schedule) {
  std::vector<Shape> shapes;
  for (const std::int32_t stages : {1, 2, 3, 4, 6, 8, 70}) {
    for (const std::int32_t microbatches : {1, 2, 4, 8, 12, 16}) {
      const Shape plain{.stages = stages, .microbatches = microbatches};
      if (stages > 8 && microbatches > 2) continue;
      shapes.push_back(plain);
      Shape shape = plain;
      shape.virtual_stages = 2;
      if (schedule.chunks == 0) shapes.push_back(shape);
      for (const std::vector<std::int32_t>& replicas : {std::vector{2}, std::vector{3, 2, 1}}) {
        shape = plain;
        shape.replicas = replicas;
        shapes.push_back(shape);
        shape.buckets = {3};
        shapes.push_back(shape);
      }
      shape = plain;
      shape.data_parallel = 2;
      shape.buckets = {2};
      shapes.push_back(shape);
      shape.buckets = {};
      shape.sharding = 3;
      shapes.push_back(shape);
    }
  }
  return shapes;
}

TEST(TakeTurns, PlaceWhatPollingPlacesOfEveryGenerator) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int before = compared;
    for (const Shape& shape : placed_shapes(schedule)) {
      const auto program = generate(schedule.name, shape);
      if (!program) continue;
      SCOPED_TRACE(testing::Message()
                   << schedule.name << " K=" << shape.stages << " M=" << shape.microbatches
                   << " v=" << shape.virtual_stages << " replicas " << testing::PrintToString(shape.replicas)
                   << " d=" << shape.data_parallel << " sharding " << shape.sharding.value_or(0));
      EXPECT_NE(same_as_polling(*program), Outcome::refused);
      ASSERT_FALSE(HasFailure());
      ++compared;
    }
    EXPECT_GT(compared, before) << schedule.name;
  }
  EXPECT_GT(compared, 1500);
}

// These are minibatches of replica groups of different sizes, with buckets that have no common order of all
// ranks.
TEST(TakeTurns, PlaceWhatPollingPlacesWhereCollectivesAreJoinedEarly) {
  Shape shape{.stages = 3, .microbatches = 56};
  shape.replicas = {8, 7, 1};
  shape.routing = Routing::global;
  shape.buckets = {4};
  const auto program = generate("1f1b-rr", shape);
  ASSERT_TRUE(program) << program.error();
  EXPECT_EQ(same_as_polling(*program), Outcome::placed_with_early_joins);
}

/// Changes a valid program, from a seed, so that its ranks may wait for each other.
class Disturbance {
 public:
  explicit Disturbance(std::uint32_t seed) : random_(seed) {}

  /// Returns the program with collectives at random positions of their members' lists, and with actions in a
  /// wrong order.
  Program of(Program program) {
    for (std::int32_t i = pick(0, 3); i > 0; --i) add_collective(program);
    if (pick(1, 100) <= 30) swap_two(program.ranks[some(program.ranks)]);
    return program;
  }

 private:
  std::int32_t pick(std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random_);
  }
  template <class List>
  std::size_t some(const List& list) {
    return static_cast<std::size_t>(pick(0, static_cast<std::int32_t>(list.size()) - 1));
  }

  void add_collective(Program& program) {
    const auto stage = static_cast<std::int32_t>(some(program.placement.stages));
    const Action action{.kind = pick(0, 1) == 0 ? ActionKind::unshard : ActionKind::reduce_grad,
                        .stage = stage};
    for (const std::int32_t rank : program.placement.stages[static_cast<std::size_t>(stage)].ranks) {
      auto& list = program.ranks[static_cast<std::size_t>(rank)];
      std::size_t place = list.empty() ? 0 : some(list);
      while (place < list.size() && !opens_group(list, place)) ++place;
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(place), action);
    }
  }

  void swap_two(std::vector<Action>& list) {
    if (list.empty()) return;
    Action& one = list[some(list)];
    Action& other = list[some(list)];
    if (!one.overlaps_next && !other.overlaps_next) std::swap(one, other);
  }

  std::mt19937 random_;
};

TEST(TakeTurns, PlaceOrRefuseWhatPollingDoesOfRandomPrograms) {
  std::vector<int> outcomes(3, 0);
  for (std::uint32_t seed = 1; seed <= 24'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const RandomSizes most =
        seed % 2 == 0 ? RandomSizes{} : RandomSizes{.ranks = 8, .stages = 8, .microbatches = 6};
    const Program program = Disturbance(seed).of(random_compute_program(seed, most));
    ++outcomes[static_cast<std::size_t>(same_as_polling(program))];
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(outcomes[static_cast<std::size_t>(Outcome::placed)], 10'000);
  EXPECT_GT(outcomes[static_cast<std::size_t>(Outcome::placed_with_early_joins)], 500);
  EXPECT_GT(outcomes[static_cast<std::size_t>(Outcome::refused)], 3'000);
}

TEST(RankSet, GivesItsLowestRank) {
  RankSet set(200);
  EXPECT_TRUE(set.empty());
  for (const std::int32_t rank : {130, 5, 64, 63, 199, 5}) set.add(rank);
  std::vector<std::int32_t> taken;
  while (!set.empty()) {
    taken.push_back(set.lowest());
    set.remove(taken.back());
    if (taken.back() == 130) set.add(2);
  }
  EXPECT_THAT(taken, testing::ElementsAre(5, 63, 64, 130, 2, 199));
}

}  // namespace
}  // namespace penstock
