// Tests which programs hang under which channel model, and what the check reports.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

/// Returns a program as a beginner would write it: every SEND is directly after its producer, and every RECV
/// is directly before its consumer.
Program naively_lowered_1f1b() {
  const auto program = parse_pytorch_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2\n",
      "naive.csv");
  EXPECT_TRUE(program) << program.error();
  return *program;
}

std::vector<std::string> hanging_models(const Program& program, Blocking blocking) {
  std::vector<std::string> models;
  for (const ChannelModel model : kChannelModels) {
    if (find_hang(program, {.model = model, .blocking = blocking}, unit_costs(program)))
      models.emplace_back(to_text(model));
  }
  return models;
}

TEST(ChannelCheck, NaivelyLowered1F1BHangsWhereSendsAndReceivesShareAQueue) {
  EXPECT_THAT(hanging_models(naively_lowered_1f1b(), Blocking::none), testing::ElementsAre("rank", "pair"));
}

TEST(ChannelCheck, BlockingSendsHangEverywhere) {
  EXPECT_THAT(hanging_models(naively_lowered_1f1b(), Blocking::each),
              testing::ElementsAre("rank", "pair", "direction", "directed", "boundary"));
}

TEST(ChannelCheck, OurLoweringHangsNowhere) {
  const Program program = *lower(*generate("1f1b", {.stages = 2, .microbatches = 3}));
  EXPECT_THAT(hanging_models(program, Blocking::none), testing::IsEmpty());
  EXPECT_THAT(hanging_models(program, Blocking::each), testing::IsEmpty());
}

TEST(ChannelCheck, TheWeakestSafeChannelOfTheNaiveOneIsADirectionOfItsOwn) {
  const Program program = naively_lowered_1f1b();
  EXPECT_EQ(weakest_safe_channel(program, {}, unit_costs(program)), ChannelModel::direction);
  EXPECT_EQ(weakest_safe_channel(program, {.blocking = Blocking::each}, unit_costs(program)), std::nullopt);
}

TEST(ChannelCheck, NamesTheShortestCycleByRankPositionAndAction) {
  const Program program = naively_lowered_1f1b();
  const auto hang = find_hang(program, {.model = ChannelModel::pair}, unit_costs(program));
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->message, testing::HasSubstr("hangs under pair channels"));
  // On each rank, the SEND comes before the RECV for which the other rank waits.
  std::vector<std::string> cycle;
  for (const WaitFor& wait : hang->cycle) cycle.push_back(to_text(wait.action));
  EXPECT_THAT(cycle, testing::UnorderedElementsAre("0SEND_F1", "1RECV_F1", "1SEND_B0", "0RECV_B0"));
  // The cycle must be closed: each entry waits for the action of the next entry.
  for (std::size_t i = 0; i < hang->cycle.size(); ++i) {
    const WaitFor& next = hang->cycle[(i + 1) % hang->cycle.size()];
    EXPECT_EQ(hang->cycle[i].waits_for, to_text(next.action) + " on rank " + std::to_string(next.rank) +
                                            ", position " + std::to_string(next.position));
  }
}

// A caller that has already walked the program, with any durations, gets the same message as from
// find_hang().
TEST(ChannelCheck, AStalledWalkIsExplainedAsItIs) {
  const Program program = naively_lowered_1f1b();
  const ChannelOptions channels{.model = ChannelModel::pair};
  const FlatProgram flat = flatten(program, unit_costs(program), {.channels = channels, .iterations = 1});
  const WalkDurations durations{.compute = std::vector<Ns>(flat.ops.size(), 7), .hold = {}, .latency = {}};
  const auto times = walk(flat, durations, channels);
  ASSERT_FALSE(times);
  const Hang hang = hang_of(flat, times.error(), channels);
  EXPECT_EQ(hang.message, find_hang(program, channels, unit_costs(program))->message);
  EXPECT_FALSE(hang.cycle.empty());
}

TEST(ChannelCheck, NobodyWaitsForALaterActionOfItsOwnRank) {
  for (const ChannelModel model : kChannelModels) {
    for (const Blocking blocking : {Blocking::none, Blocking::each, Blocking::batched}) {
      const Program program = naively_lowered_1f1b();
      const auto hang = find_hang(program, {.model = model, .blocking = blocking}, unit_costs(program));
      if (!hang) continue;
      for (std::size_t i = 0; i < hang->cycle.size(); ++i) {
        const WaitFor& next = hang->cycle[(i + 1) % hang->cycle.size()];
        if (next.rank != hang->cycle[i].rank) continue;
        EXPECT_LT(next.position, hang->cycle[i].position) << hang->message;
      }
    }
  }
}

// With one queue for each rank, each of the last two ranks sends before it receives the message of the other.
// More ranks wait for their gradients than the search uses as starting points. None of these ranks is in the
// cycle.
TEST(ChannelCheck, NamesACycleFarFromThousandsOfRanksThatWait) {
  constexpr std::int32_t kRanks = 4200;
  constexpr std::int32_t kLast = kRanks - 1;
  Program program = *lower(*generate("gpipe", {.stages = kRanks, .microbatches = 2}));
  const auto message = [](ActionKind kind, std::int32_t m) {
    return Action{.kind = kind, .stage = kLast, .microbatch = m, .peer = kLast - 1};
  };
  // On the last rank, B0 comes before F1.
  std::vector<Action> list;
  for (const std::int32_t m : {0, 1}) {
    list.push_back(message(ActionKind::recv_forward, m));
    list.push_back({.kind = ActionKind::forward, .stage = kLast, .microbatch = m});
    list.push_back({.kind = ActionKind::backward, .stage = kLast, .microbatch = m});
    list.push_back(message(ActionKind::send_backward, m));
  }
  list.push_back(program.ranks.back().back());
  program.ranks.back() = list;
  EXPECT_TRUE(validate(program));
  const auto hang = find_hang(program, {.model = ChannelModel::rank}, unit_costs(program));
  ASSERT_TRUE(hang);
  std::vector<std::string> cycle;
  for (const WaitFor& wait : hang->cycle) cycle.push_back(to_text(wait.action));
  EXPECT_THAT(cycle,
              testing::UnorderedElementsAre("4198SEND_F1", "4199RECV_F1", "4199SEND_B0", "4198RECV_B0"));
}

TEST(ChannelCheck, EagerMessagesDoNotHang) {
  const Program program = naively_lowered_1f1b();
  EXPECT_FALSE(find_hang(program, {.model = ChannelModel::pair, .eager_bytes = 1}, unit_costs(program)));
}

TEST(ChannelCheck, ACapacityCanHangWhatIsSafeWithoutOne) {
  // Rank 1 must receive both activations before it uses the first of them.
  const auto program = parse_pytorch_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0B1,0RECV_B0,0B0\n"
      "1RECV_F0,1RECV_F1,1F1,1B1,1SEND_B1,1F0,1B0,1SEND_B0\n",
      "lifo.csv");
  ASSERT_TRUE(program) << program.error();
  EXPECT_FALSE(find_hang(*program, {}, unit_costs(*program)));
  EXPECT_FALSE(find_hang(*program, {.capacity = 2}, unit_costs(*program)));
  const auto hang = find_hang(*program, {.capacity = 1}, unit_costs(*program));
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->message, testing::HasSubstr("capacity 1"));
}

//   rank 0   F0 F1 R0 R1 B0 B1    R1 waits for the second gradient, but B0 has not used the first one yet
TEST(ChannelCheck, ALateRecomputationFreesNoPlace) {
  const auto compute = parse_program(
      "penstock program 1\nschedule both\nmicrobatches 2\nrecompute late\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0F1 0R0 0R1 0B0 0B1 0STEP\nrank 1: 1F0 1B0 1F1 1B1 1STEP\n",
      "late.psched");
  ASSERT_TRUE(compute) << compute.error();
  const Program program = *lower(*compute);
  EXPECT_FALSE(find_hang(program, {.capacity = 2}, unit_costs(program)));
  const auto hang = find_hang(program, {.capacity = 1}, unit_costs(program));
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->message, testing::HasSubstr("0B0"));
}

TEST(ChannelCheck, CollectivesTakePartInTheCheck) {
  // The two ranks reduce their two shared stages in opposite orders.
  const auto program = parse_program(
      "penstock program 1\nschedule crossed\nmicrobatches 2\n"
      "stage 0: ranks 0 1 route 0 1\nstage 1: ranks 0 1 route 0 1\n"
      "rank 0: 0F0 1F0 1B0 0B0 0REDUCE_GRAD 1REDUCE_GRAD 0STEP 1STEP\n"
      "rank 1: 0F1 1F1 1B1 0B1 1REDUCE_GRAD 0REDUCE_GRAD 0STEP 1STEP\n",
      "crossed.psched");
  ASSERT_TRUE(program) << program.error();
  for (const ChannelModel model : kChannelModels) {
    const auto hang = find_hang(*program, {.model = model}, unit_costs(*program));
    ASSERT_TRUE(hang);
    EXPECT_THAT(hang->message, testing::HasSubstr("0REDUCE_GRAD"));
    EXPECT_THAT(hang->message, testing::HasSubstr("1REDUCE_GRAD"));
  }
}

TEST(ChannelCheck, OneRankNeverHangs) {
  const Program program = *lower(*generate("gpipe", {.stages = 1, .microbatches = 4}));
  EXPECT_EQ(weakest_safe_channel(program, {.blocking = Blocking::each, .capacity = 1}, unit_costs(program)),
            ChannelModel::rank);
}

// --- the verdicts that the reference files state -----------------------------------------------------

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

ChannelModel model_of_reference(const std::string& name) {
  if (name == "stage_edge") return ChannelModel::boundary;
  if (name == "edge") return ChannelModel::directed;
  if (name == "pair") return ChannelModel::pair;
  return name == "dir" ? ChannelModel::direction : ChannelModel::rank;
}

TEST(ChannelCheck, AgreesWithAllPublishedVerdicts) {
  const std::filesystem::path folder = source_path("../shared/reference/deadlock");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the reference verdicts are not beside this checkout";
  int verdicts = 0;
  const nlohmann::json expected = nlohmann::json::parse(read(folder / "expected.json"));
  for (const auto& test_case : expected.at("cases")) {
    const std::string file = test_case.at("file");
    const auto program = parse_pytorch_csv(read(folder / file), file);
    ASSERT_TRUE(program) << program.error();
    for (const auto& [key, verdict] : test_case.at("verdict").items()) {
      const std::string model = key.substr(0, key.find('/'));
      const Blocking blocking = key.ends_with("/sync") ? Blocking::each : Blocking::none;
      const bool hangs = find_hang(*program, {.model = model_of_reference(model), .blocking = blocking},
                                   unit_costs(*program))
                             .has_value();
      EXPECT_EQ(hangs, verdict == "HANG") << file << " " << key;
      ++verdicts;
    }
  }
  EXPECT_EQ(verdicts, 140);
}

// Tests programs in which ranks list the messages between them in different orders.

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Program program_of(const std::string& lists) {
  const auto program = parse_program("penstock program 1\nschedule custom\n" + lists, "it.psched");
  EXPECT_TRUE(program) << program.error();
  EXPECT_TRUE(validate(*program)) << validate(*program).error();
  return *program;
}

/// Returns a program in which rank 0 sends microbatch 0 first, and rank 1 receives microbatch 1 first.
Program swapped() {
  return program_of(
      "microbatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B1 0B1 0RECV_B0 0B0 0STEP\n"
      "rank 1: 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n");
}

/// Returns a program with stages 0 and 2 on rank 0, and 1 and 3 on rank 1. Rank 0 sends the activation of 0F1
/// before that of 2F0, and rank 1 receives them in the opposite order.
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

// With one queue for each pair of ranks, each of the two ranks waits at a SEND that the other rank does not
// receive yet.
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

// An activation of stage 1 and a gradient of stage 1 go from rank 0 to rank 1. With `direction` channels they
// are in different queues.
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

// If nothing stalls, each engine would compute times for such a program.
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

// If a RECV is moved to its consumer, it may come after a RECV that is later in the FIFO.
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
