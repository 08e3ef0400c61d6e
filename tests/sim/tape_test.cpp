// Tests that a tape gives the times of the walk, to the nanosecond, for every action and message: for all
// channel models, schedules, random programs, and costs with which the tape was not compiled. The last tests
// are about passes that need not follow queues.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/lane_loop.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/tape_writer.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

/// Compiles the program and compares all times with those of the walk. Returns false if both find that the
/// program hangs.
bool agrees(const Experiment& experiment) {
  const FlatProgram flat = flat_of(experiment);
  const auto expected = walk(flat, walk_durations(experiment, flat), experiment.channels);
  const std::optional<Tape> tape = compile(flat, experiment.channels, microbatch_groups(experiment.costs));
  EXPECT_EQ(tape.has_value(), expected.has_value());
  if (!tape || !expected) return false;
  const TapeCosts costs = tape_costs(*tape, experiment);
  const ProgramTimes times = times_of(*tape, costs, flat);
  EXPECT_EQ(times.start, expected->start);
  EXPECT_EQ(times.end, expected->end);
  EXPECT_EQ(times.message_start, expected->message_start);
  EXPECT_EQ(times.message_end, expected->message_end);
  EXPECT_EQ(makespan_ns(*tape, costs), last_end(*expected));
  return true;
}

std::vector<ChannelOptions> all_channels() {
  std::vector<ChannelOptions> all;
  for (const ChannelModel model : kChannelModels) {
    for (const Blocking blocking : {Blocking::none, Blocking::each, Blocking::batched}) {
      for (const std::int64_t capacity : {0, 1}) {
        for (const std::int64_t eager : {0, 5})
          all.push_back({.model = model, .blocking = blocking, .capacity = capacity, .eager_bytes = eager});
      }
    }
  }
  return all;
}

TEST(Tape, OneStageAndMicrobatchAreThreeInstructions) {
  const Experiment experiment = uniform_experiment("1f1b", {}, {.forward_ns = 3, .backward_ns = 5});
  const std::optional<Tape> tape = compile(flat_of(experiment), experiment.channels);
  ASSERT_TRUE(tape);
  EXPECT_EQ(tape->size(), 3) << "0F0 0B0 0STEP";
  EXPECT_EQ(makespan_ns(*tape, tape_costs(*tape, experiment)), 8);
}

TEST(Tape, AMessageRidesOnItsProducersInstruction) {
  const Experiment experiment = uniform_experiment("gpipe", {.stages = 2, .microbatches = 8}, {});
  const std::optional<Tape> tape = compile(flat_of(experiment), experiment.channels);
  ASSERT_TRUE(tape);
  EXPECT_EQ(tape->size(), 2 * (8 + 8 + 1)) << "F, B and STEP alone: none for 8 activations and 8 gradients";
  EXPECT_FALSE(tape->both_ends) << "both ends of a directed channel hold the same messages";
}

TEST(Tape, EqualsTheWalkOnEveryGeneratorUnderEveryChannel) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int before = compared;
    for (const std::int32_t stages : {1, 2, 4}) {
      for (const std::int32_t microbatches : {1, 2, 4, 8}) {
        const auto program = generate(schedule.name, {.stages = stages,
                                                      .microbatches = microbatches,
                                                      .virtual_stages = chunks_to_try(schedule),
                                                      .iterations = 2});
        if (!program) continue;
        Experiment experiment =
            experiment_of(*program, unit_costs(*program), uniform_links(program->rank_count(), 1e9, 7));
        experiment.costs = uneven_costs(experiment.program, 17);
        for (const ChannelOptions& channels : all_channels()) {
          SCOPED_TRACE(testing::Message()
                       << schedule.name << " K=" << stages << " M=" << microbatches << " "
                       << to_text(channels.model) << blocking_suffix(channels.blocking) << " capacity "
                       << channels.capacity << " eager " << channels.eager_bytes);
          experiment.channels = channels;
          compared += agrees(experiment) ? 1 : 0;
          ASSERT_FALSE(HasFailure());
        }
      }
    }
    EXPECT_GT(compared, before) << schedule.name;
  }
  EXPECT_GT(compared, 3000);
}

// Either all microbatches have different costs, or the costs of the first half are repeated. A slice has the
// costs of its microbatch.
TEST(Tape, EqualsTheWalkWhereMicrobatchesDiffer) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const Shape& shape : {Shape{.stages = 2, .microbatches = 4, .iterations = 2},
                               Shape{.stages = 4, .microbatches = 8, .virtual_stages = 2},
                               Shape{.stages = 2, .microbatches = 4, .slices = 2}}) {
      const auto program = generate(schedule.name, shape);
      if (!program) continue;
      for (const std::int32_t repetitions : {1, 2}) {
        const auto distinct = static_cast<std::size_t>(program->microbatches / repetitions);
        Experiment experiment = experiment_of(*program, differing_costs(*program, distinct),
                                              uniform_links(program->rank_count(), 1e9, 7));
        for (const ChannelOptions& channels : all_channels()) {
          SCOPED_TRACE(testing::Message() << schedule.name << " K=" << shape.stages << " of " << distinct);
          experiment.channels = channels;
          compared += agrees(experiment) ? 1 : 0;
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
  EXPECT_GT(compared, 1500);
}

TEST(Tape, IsNotPricedByMicrobatchesThatItDoesNotTellApart) {
  const Program program = *generate("1f1b", {.stages = 2, .microbatches = 4});
  const Experiment experiment = experiment_of(program, differing_costs(program, 4), uniform_links(2, 1e9, 7));
  const std::optional<Tape> tape = compile(flat_of(experiment), {});
  EXPECT_THROW(tape_costs(*tape, experiment), std::logic_error);
}

TEST(Tape, EqualsTheWalkOnRandomPrograms) {
  int hanging = 0;
  for (std::uint32_t seed = 1; seed <= 6000; ++seed) {  // 5888: an eager message into a queue that sends
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Experiment experiment = random_experiment(seed);
    EXPECT_TRUE(agrees(experiment));
    for (const ChannelOptions& channels :
         {ChannelOptions{.model = ChannelModel::rank, .capacity = 1},
          ChannelOptions{.model = ChannelModel::pair, .blocking = Blocking::each}}) {
      experiment.channels = channels;
      hanging += agrees(experiment) ? 0 : 1;
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(hanging, 100) << "programs that hang are seen, too";
}

// F, B and STEP of each stage have separate classes, and so do its messages.
TEST(Tape, ClassesBeyond16BitsAreWide) {
  constexpr std::int32_t kStages = 22'000;
  const Program program = *lower(*generate("naive", {.stages = kStages, .microbatches = 1}));
  const CostTable stated = unit_costs(program);
  const std::optional<Tape> tape = compile(flatten(program, stated, {}), {});
  ASSERT_TRUE(tape);
  EXPECT_TRUE(std::holds_alternative<std::vector<WideInstruction>>(tape->code));
  TapeCosts costs;
  for (const DurationClass& of : tape->durations)
    costs.durations.push_back(of.count == 0 ? 0 : group_duration_ns(stated, tape->actions_of(of)));
  for (const LinkClass& link : tape->links)
    costs.links.push_back(
        {.c = link.c, .e = link.e, .latency_ns = link.transfer == LinkClass::kNoTransfer ? 0 : 1});
  EXPECT_EQ(costs.durations.size(), 1 + 3 * std::size_t{kStages});
  EXPECT_EQ(makespan_ns(*tape, costs), Ns{kStages} * 3'000'000 + 2 * (kStages - 1));
  EXPECT_EQ(makespans_ns(*tape, {&costs, 1})[0], makespan_ns(*tape, costs));
}

TEST(Tape, IsCompiledOnceForManyCosts) {
  Experiment experiment = uniform_experiment("zb-h1", {.stages = 4, .microbatches = 8, .iterations = 2}, {});
  const FlatProgram flat = flat_of(experiment);
  const std::optional<Tape> tape = compile(flat, {});
  ASSERT_TRUE(tape);
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    experiment.costs = uneven_costs(experiment.program, seed);
    const FlatProgram priced = flat_of(experiment);
    const auto expected = walk(priced, walk_durations(experiment, priced), {});
    EXPECT_EQ(makespan_ns(*tape, tape_costs(*tape, experiment)), last_end(*expected));
  }
}

TEST(Tape, TakesADurationOfItsOwnForEveryInstruction) {
  for (std::uint32_t seed = 1; seed <= 500; ++seed) {
    const Experiment experiment = random_experiment(seed);
    const FlatProgram flat = flat_of(experiment);
    const std::optional<Tape> tape = compile(flat, experiment.channels);
    ASSERT_TRUE(tape);
    WalkDurations durations = walk_durations(experiment, flat);
    std::vector<Ns> stream(tape->size(), 0);
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < tape->size(); ++i) {
      const Origin& origin = tape->origins[i];
      const Ns drawn = std::uniform_int_distribution<Ns>(0, 30)(random);
      const bool collective = origin.position == kNone && origin.message != kNone &&
                              flat.messages[static_cast<std::size_t>(origin.message)].recv == kNone;
      if (origin.position != kNone)
        durations.compute[static_cast<std::size_t>(origin.position)] = stream[i] = drawn;
      if (collective) durations.hold[static_cast<std::size_t>(origin.message)] = stream[i] = drawn;
    }
    EXPECT_EQ(makespan_ns(*tape, tape_costs(*tape, experiment), stream),
              last_end(*walk(flat, durations, experiment.channels)))
        << "seed " << seed;
  }
}

TEST(Lanes, AreEightTablesAtOnce) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    Experiment experiment = random_experiment(seed);
    experiment.channels.eager_bytes = 0;  // with eager messages, other sizes would be another program
    const std::optional<Tape> tape = compile(flat_of(experiment), experiment.channels);
    if (!tape) continue;
    std::vector<TapeCosts> tables;
    for (std::uint32_t table = 0; table < kLanes; ++table) {
      experiment.costs = uneven_costs(experiment.program, seed * 8 + table);
      tables.push_back(tape_costs(*tape, experiment));
      const LaneTimes makespans = makespans_ns(*tape, tables);
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        ASSERT_EQ(makespans[lane], lane <= table ? makespan_ns(*tape, tables[lane]) : 0) << lane;
    }
  }
}

TEST(Lanes, TakeADurationOfTheirOwnForEveryInstruction) {
  const Experiment experiment =
      uniform_experiment("zb-h1", {.stages = 4, .microbatches = 64}, {.latency_ns = 3});
  const std::optional<Tape> tape = compile(flat_of(experiment), {});
  ASSERT_TRUE(tape);
  ASSERT_GT(tape->size(), 700) << "several blocks of durations";
  const TapeCosts costs = tape_costs(*tape, experiment);
  const auto drawn = [](std::size_t instruction, std::size_t lane) {
    return static_cast<Ns>((instruction * 7919 + lane * 104'729) % 31);
  };
  const LaneTimes makespans =
      makespans_ns(*tape, costs, [&](std::size_t first, std::span<LaneLine> durations) {
        for (std::size_t i = 0; i < durations.size(); ++i) {
          for (std::size_t lane = 0; lane < kLanes; ++lane) durations[i].of[lane] = drawn(first + i, lane);
        }
      });
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::vector<Ns> stream;
    for (std::size_t i = 0; i < tape->size(); ++i) stream.push_back(drawn(i, lane));
    EXPECT_EQ(makespans[lane], makespan_ns(*tape, costs, stream)) << lane;
  }
}

TEST(Lanes, EveryProcessorsCodeSaysTheSame) {
  const Experiment experiment =
      uniform_experiment("1f1b", {.stages = 4, .microbatches = 16}, {.latency_ns = 3});
  const std::optional<Tape> tape = compile(flat_of(experiment), {});
  ASSERT_TRUE(tape);
  const auto& code = std::get<std::vector<NarrowInstruction>>(tape->code);
  const TapeCosts costs = tape_costs(*tape, experiment);
  std::vector<LaneLink> links(costs.links.size());
  std::vector<LaneLine> durations(costs.durations.size());
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t i = 0; i < links.size(); ++i) {
      links[i].c = costs.links[i].c;
      links[i].e = costs.links[i].e;
      links[i].hold_ns[lane] = static_cast<Ns>(lane) * 1000;
      links[i].latency_ns[lane] = costs.links[i].latency_ns;
    }
    for (std::size_t i = 0; i < durations.size(); ++i)
      durations[i].of[lane] = costs.durations[i] * static_cast<Ns>(lane + 1);
  }
  const auto registers_after = [&](void (*run)(const LaneRun&)) {
    std::vector<LaneLine> registers(tape->register_count);
    run({.narrow = code.data(),
         .size = code.size(),
         .durations = durations.data()->of.data(),
         .links = links.data(),
         .registers = registers.data()->of.data()});
    std::vector<LaneTimes> values;
    for (const LaneLine& line : registers) values.push_back(line.of);
    return values;
  };
  const std::vector<LaneTimes> portable = registers_after(run_lanes_portable);
  EXPECT_GT(portable[0][7], portable[0][0]);
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_EQ(registers_after(run_lanes_avx2), portable);
  }
  if (__builtin_cpu_supports("avx512f")) {
    EXPECT_EQ(registers_after(run_lanes_avx512), portable);
  }
#endif
}

TEST(Tape, AHangingProgramHasNone) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1STEP\n",
      "crossed.psched");
  ASSERT_TRUE(program);
  const FlatProgram flat = flatten(*program, unit_costs(*program), {});
  EXPECT_FALSE(compile(flat, {})) << "rank 1 waits for microbatch 1 first, rank 0 sends microbatch 0 first";
}

// Tests when a pass over a tape need not follow queues. The pass must have the times of the walk in both
// cases: messages occupy their channels as long as the shortest action that sends, and longer.

/// A schedule on 4 ranks with 3 ns for F and 5 ns for B. Messages occupy their channels for `hold_ns`.
struct HeldChannels {
  HeldChannels(const std::string& schedule, ChannelModel model, Ns hold_ns)
      : experiment(uniform_experiment(schedule, {.stages = 4, .microbatches = 8},
                                      {.forward_ns = 3, .backward_ns = 5, .latency_ns = 1})),
        channels{.model = model},
        flat(flatten(experiment.program, experiment.costs, {.channels = channels})),
        tape(compile(flat, channels).value()),
        costs(tape_costs(tape, experiment)),
        durations(walk_durations(experiment, flat)) {
    for (std::size_t link = 0; link < costs.links.size(); ++link) {
      if (tape.links[link].transfer != LinkClass::kNoTransfer) costs.links[link].hold_ns = hold_ns;
    }
    for (std::size_t message = 0; message < flat.messages.size(); ++message) {
      if (flat.messages[message].recv != kNone) durations.hold[message] = hold_ns;
    }
  }

  QueuesFollowed followed() const { return queues_followed(tape, costs.links, costs.durations); }
  Ns walked() const { return last_end(*walk(flat, durations, channels)); }

  Experiment experiment;
  ChannelOptions channels;
  FlatProgram flat;
  Tape tape;
  TapeCosts costs;
  WalkDurations durations;
};

TEST(QueueSenders, QueuesAreLeftOutUpToTheShortestActionThatSends) {
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::directed, 0).followed(), QueuesFollowed::none);
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::directed, 3).followed(), QueuesFollowed::none);
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::directed, 4).followed(), QueuesFollowed::one_end);
}

TEST(QueueSenders, QueuesThatSeveralRanksFillAreFollowed) {
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::pair, 0).followed(), QueuesFollowed::one_end);
  EXPECT_EQ(HeldChannels("1f1b", ChannelModel::rank, 0).followed(), QueuesFollowed::both_ends);
}

TEST(QueueSenders, AnyDurationsMayBeShort) {
  const HeldChannels held("1f1b", ChannelModel::directed, 1);
  EXPECT_EQ(queues_followed(held.tape, held.costs.links, {}), QueuesFollowed::one_end);
  const HeldChannels free("1f1b", ChannelModel::directed, 0);
  EXPECT_EQ(queues_followed(free.tape, free.costs.links, {}), QueuesFollowed::none);
}

TEST(QueueSenders, PassesSayWhatTheWalkSaysOnBothSidesOfTheLimit) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "interleaved", "zb-v", "dualpipe-v", "chimera"}) {
    for (const ChannelModel model : kChannelModels) {
      for (Ns hold_ns = 0; hold_ns <= 9; ++hold_ns) {
        const HeldChannels held(schedule, model, hold_ns);
        const Ns expected = held.walked();
        EXPECT_EQ(makespan_ns(held.tape, held.costs), expected) << schedule << ", held for " << hold_ns;
        EXPECT_EQ(makespans_ns(held.tape, {&held.costs, 1})[0], expected) << schedule;
      }
    }
  }
}

// If the queues of one lane must be followed, those of all lanes are.
TEST(QueueSenders, LanesMayDiffer) {
  const HeldChannels free("1f1b", ChannelModel::directed, 0);
  const HeldChannels held("1f1b", ChannelModel::directed, 9);
  const std::vector<TapeCosts> tables = {free.costs, held.costs};
  const LaneTimes makespans = makespans_ns(free.tape, tables);
  EXPECT_EQ(makespans[0], free.walked());
  EXPECT_EQ(makespans[1], held.walked());
  EXPECT_GT(makespans[1], makespans[0]);
}

}  // namespace
}  // namespace penstock
