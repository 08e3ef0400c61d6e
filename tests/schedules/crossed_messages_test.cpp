// Programs whose ranks list the messages between them in different orders, and what the channel check says.

#include "schedules/check/crossed_messages.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/defer_receives.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Program program_of(const std::string& lists) {
  const auto program = parse_program("penstock program 1\nschedule custom\n" + lists, "it.psched");
  EXPECT_TRUE(program) << program.error();
  EXPECT_TRUE(validate(*program)) << validate(*program).error();
  return *program;
}

/// Rank 0 sends microbatch 0 first, rank 1 wants microbatch 1 first.
Program swapped() {
  return program_of(
      "microbatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B1 0B1 0RECV_B0 0B0 0STEP\n"
      "rank 1: 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n");
}

/// Stages 0 and 2 on rank 0, 1 and 3 on rank 1. Rank 0 sends 0F1 before 2F0, rank 1 takes 2F0 first.
Program looped() {
  return program_of(
      "microbatches 2\nstage 0: rank 0\nstage 1: rank 1\nstage 2: rank 0\nstage 3: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2SEND_F0 2RECV_F1 2F1 2SEND_F1 2RECV_B0 2B0 2SEND_B0 "
      "2RECV_B1 2B1 2SEND_B1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP 2STEP\n"
      "rank 1: 1RECV_F0 1F0 1SEND_F0 3RECV_F0 3F0 1RECV_F1 1F1 1SEND_F1 3RECV_F1 3F1 3B0 3SEND_B0 3B1 "
      "3SEND_B1 1RECV_B0 1B0 1SEND_B0 1RECV_B1 1B1 1SEND_B1 1STEP 3STEP\n");
}

std::string in_words(const CrossedMessage& one) {
  return fmt::format("rank {} {} meets rank {} {}", one.rank, to_text(one.send), one.peer,
                     to_text(one.receive));
}

std::vector<std::string> crossed_under(const Program& program, const ChannelOptions& channels) {
  std::vector<std::string> found;
  const auto hang = find_hang(program, channels, unit_costs(program));
  if (!hang) return found;
  for (const CrossedMessage& one : hang->crossed) found.push_back(in_words(one));
  return found;
}

TEST(CrossedMessages, AreAVerdictOfTheirOwnUnderEveryChannelModel) {
  for (const ChannelModel model : kChannelModels) {
    for (const std::int64_t eager : {0, 1 << 20}) {
      EXPECT_THAT(
          crossed_under(swapped(), {.model = model, .eager_bytes = eager}),
          ElementsAre("rank 0 0SEND_F0 meets rank 1 1RECV_F1", "rank 0 0SEND_F1 meets rank 1 1RECV_F0"))
          << to_text(model) << " eager " << eager;
    }
  }
}

TEST(CrossedMessages, HangNobodyWhereTheOtherMessageIsTaken) {
  const auto hang = find_hang(swapped(), {}, unit_costs(swapped()));
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->cycle, IsEmpty());
  EXPECT_THAT(hang->message, HasSubstr("messages cross under directed channels"));
  EXPECT_THAT(hang->message,
              HasSubstr("rank 0 sends 0SEND_F0 where rank 1 expects 1RECV_F1 (positions 1 and 0)"));
}

// With one queue a pair of ranks both stand at a SEND that the other one does not take yet.
TEST(CrossedMessages, MayHangAsWell) {
  const auto hang = find_hang(swapped(), {.model = ChannelModel::pair}, unit_costs(swapped()));
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->crossed.size(), 2U);
  std::vector<std::string> cycle;
  for (const WaitFor& wait : hang->cycle) cycle.push_back(to_text(wait.action));
  EXPECT_THAT(cycle, testing::UnorderedElementsAre("0SEND_F1", "1RECV_F0", "1SEND_B1", "0RECV_B1"));
  EXPECT_THAT(hang->message,
              HasSubstr("with these messages exchanged the program hangs under pair channels"));
}

TEST(CrossedMessages, OfDifferentStageEdgesCrossOnlyInAFifoThatTheyShare) {
  for (const ChannelModel model : kChannelModels) {
    const std::vector<std::string> found = crossed_under(looped(), {.model = model});
    if (model == ChannelModel::boundary) {
      EXPECT_THAT(found, IsEmpty());
    } else {
      EXPECT_THAT(found, ElementsAre("rank 0 0SEND_F1 meets rank 1 3RECV_F0",
                                     "rank 0 2SEND_F0 meets rank 1 1RECV_F1"))
          << to_text(model);
    }
  }
}

// An activation of stage 1 and a gradient of stage 1 go from rank 0 to rank 1 and share no queue by
// direction.
TEST(CrossedMessages, OfDifferentDirectionsCrossInOneFifoARank) {
  const Program program = program_of(
      "microbatches 1\nstage 0: rank 0\nstage 1: rank 1\nstage 2: rank 0\nstage 3: rank 1\n"
      "rank 0: 0F0 0SEND_F0 2RECV_F0 2F0 2SEND_F0 2RECV_B0 2B0 2SEND_B0 0RECV_B0 0B0 0STEP 2STEP\n"
      "rank 1: 1RECV_F0 1F0 1SEND_F0 1RECV_B0 3RECV_F0 3F0 3B0 3SEND_B0 1B0 1SEND_B0 1STEP 3STEP\n");
  EXPECT_THAT(crossed_under(program, {}),
              ElementsAre("rank 0 2SEND_F0 meets rank 1 1RECV_B0", "rank 0 2SEND_B0 meets rank 1 3RECV_F0"));
  EXPECT_THAT(crossed_under(program, {.model = ChannelModel::direction}), IsEmpty());
}

TEST(CrossedMessages, CrossAlikeInEveryIteration) {
  Program program = swapped();
  program.iterations = 3;
  const auto hang = find_hang(program, {}, unit_costs(program));
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->cycle, IsEmpty());
  EXPECT_EQ(hang->crossed.size(), 2U);
}

TEST(CrossedMessages, AreInNoProgramThatIsLowered) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    const auto program =
        generate(schedule.name, {.stages = 4, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)});
    if (!program) continue;
    const Program lowered = *lower(*program);
    for (const ChannelModel model : kChannelModels)
      EXPECT_THAT(crossed_messages(lowered, model), IsEmpty()) << schedule.name << " " << to_text(model);
  }
}

// Each engine would give times where nothing stalls.
TEST(CrossedMessages, AreRefusedByBothEnginesAlsoWhereTheyAreEager) {
  for (const std::int64_t eager : {0, 1 << 20}) {
    Experiment experiment = experiment_of(swapped(), unit_costs(swapped()), uniform_links(2, 1e9, 3));
    experiment.channels.eager_bytes = eager;
    for (const auto& run : {critical_path(experiment), event_simulation(experiment)}) {
      ASSERT_FALSE(run) << eager;
      EXPECT_THAT(run.error().message, HasSubstr("0SEND_F0 where rank 1 expects 1RECV_F1"));
    }
  }
}

// Moved to its consumer, a RECV may come to stand behind one that its rank takes later in the FIFO.
TEST(CrossedMessages, AreNotMadeByDeferringReceives) {
  const Program program = program_of(
      "microbatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B1 0B1 0RECV_B0 0B0 0STEP\n"
      "rank 1: 1RECV_F0 1RECV_F1 1F1 1B1 1SEND_B1 1F0 1B0 1SEND_B0 1STEP\n");
  for (const std::int64_t eager : {0, 1 << 20}) {
    const ChannelOptions channels{.eager_bytes = eager};
    const Program late = defer_receives(program, channels, unit_costs(program));
    EXPECT_FALSE(find_hang(late, channels, unit_costs(late))) << eager << "\n" << to_text(late);
  }
}

}  // namespace
}  // namespace penstock
