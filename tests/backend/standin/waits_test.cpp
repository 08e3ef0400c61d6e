// Runs lists with WAITs and GROUP_NOWAITs over both GPU transports. Each compute action and each WAIT must
// start and end at the time that the simulator predicts. The first tests use lists that were written by hand.
// The later tests use schedules with random WAITs and groups.

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cuda/local_run.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/backend/standin/traced_modules.hpp"
#include "tests/backend/standin/verdict.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Verdict;

constexpr Ns kMillisecond = 1'000'000;

enum class Through : std::uint8_t { copies, nccl };

/// Returns the compute actions and WAITs that start or end at another time than predicted, one in a line.
/// Launches and copies may cause a difference of 1 % and 0.3 ms.
std::string late_actions(const Timeline& measured, const Experiment& experiment) {
  const auto predicted = critical_path(experiment);
  EXPECT_TRUE(predicted);
  EXPECT_EQ(measured.spans.size(), predicted->spans.size());
  std::string late;
  for (std::size_t i = 0; i < predicted->spans.size(); ++i) {
    const Span& one = predicted->spans[i];
    const Span& other = measured.spans[i];
    EXPECT_EQ(one.action, other.action);
    if (!is_compute(one.action.kind) && !is_wait(one.action.kind)) continue;
    const auto differs = [](Ns expected, Ns found) {
      const auto of = static_cast<double>(expected);
      return std::abs(static_cast<double>(found) - of) > 0.01 * of + 300'000;
    };
    if (!differs(one.start_ns, other.start_ns) && !differs(one.end_ns, other.end_ns)) continue;
    late += fmt::format("rank {}: {} is predicted at {}..{} and was at {}..{}\n", one.rank,
                        to_text(one.action), one.start_ns, one.end_ns, other.start_ns, other.end_ns);
  }
  return late;
}

/// Runs the experiment with traced modules. Over copies, links are emulated as the experiment's cluster says.
void expect_predicted_times(const Experiment& experiment, Through through, std::uint64_t seed) {
  const int ranks = experiment.program.rank_count();
  const Verdict verdict = controlled({.seed = seed, .devices = through == Through::nccl ? ranks : 1}, [&] {
    const RunOptions options{.warmup = 1, .repeats = 1, .deadline = std::chrono::seconds(10)};
    const PaceOfLinks pace = [&](const FlatProgram& flat) {
      WalkDurations durations = walk_durations(experiment, flat);
      return LinkPace{.hold = std::move(durations.hold), .latency = std::move(durations.latency)};
    };
    const auto result = through == Through::nccl
                            ? run_on_nccl(experiment, pace, options, traced(experiment), std::nullopt)
                            : run_on_cuda_local(experiment, pace, options, traced(experiment));
    return result ? late_actions((*result)->timeline, experiment) : result.error().message;
  });
  SCOPED_TRACE(fmt::format("over {}, seed {}: {}", through == Through::nccl ? "nccl" : "copies", seed,
                           to_text(verdict)));
  EXPECT_EQ(verdict.answer, "");
  EXPECT_EQ(verdict.death, "");
  EXPECT_TRUE(verdict.defects.empty());
  EXPECT_EQ(verdict.timed_allocations, 0U);
}

void expect_predicted_times(const Experiment& experiment) {
  for (const Through through : {Through::copies, Through::nccl})
    expect_predicted_times(experiment, through, 1);
}

/// Returns the experiment of the lists. F takes 5 ms and B takes 10 ms. Links take no time.
Experiment listed(const std::string& lists, int microbatches) {
  const auto program = parse_program(
      fmt::format("penstock program 1\nschedule custom\nmicrobatches {}\n{}", microbatches, lists),
      "waits.psched");
  EXPECT_TRUE(program) << program.error();
  const auto valid = validate(*program);
  EXPECT_TRUE(valid) << valid.error();
  CostTable costs = uniform_costs(*program, {.forward_ns = 5 * kMillisecond,
                                             .backward_ns = 10 * kMillisecond,
                                             .weights = kTracedMessage,
                                             .gradients = kTracedMessage});
  for (EdgeCost& edge : costs.edges) edge = {.activation = kTracedMessage, .gradient = kTracedMessage};
  return {.name = "waits",
          .program = *program,
          .costs = costs,
          .cluster = uniform_links(program->rank_count(), 1e15, 0),
          .channels = {},
          .notes = {}};
}

/// Returns the start of an action in the prediction.
Ns predicted_start(const Experiment& experiment, const std::string& action) {
  const auto predicted = critical_path(experiment);
  EXPECT_TRUE(predicted);
  for (const Span& span : predicted->spans) {
    if (to_text(span.action) == action) return span.start_ns;
  }
  ADD_FAILURE() << "no " << action;
  return 0;
}

constexpr const char* kTwoStages = "stage 0: rank 0\nstage 1: rank 1\n";

// The message of F0 is under way for 8 ms.
//
//   rank 0   F0---|        |F1---|            1 character = 1 ms
//   channel        |hold..~|
//                          ^ WAIT_SEND_F0
TEST(StandInListWaits, ARankGoesOnWhenItsMessageHasArrived) {
  Experiment experiment =
      listed(kTwoStages + std::string("rank 0: 0F0 0SEND_F0 0WAIT_SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 "
                                      "0B1 0STEP\nrank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0 1RECV_F1 "
                                      "1F1 1B1 1SEND_B1 1STEP\n"),
             2);
  experiment.cluster = uniform_links(2, static_cast<double>(kTracedMessage) / 6e-3, 2 * kMillisecond);
  EXPECT_NEAR(static_cast<double>(predicted_start(experiment, "0F1")), 13e6, 10);
  EXPECT_NEAR(static_cast<double>(predicted_start(experiment, "1F1")), 36e6, 10);
  expect_predicted_times(experiment, Through::copies, 1);
}

// The message of F1 starts when rank 1 posts the group with its RECV.
//
//   rank 0   F0---F1---|........|F2---           1 character = 1 ms
//   rank 1        F0---B0-------|F1---
//                               ^ WAIT_SEND_F1 on rank 0, and the group on rank 1
TEST(StandInListWaits, ARankWaitsForAMessageUntilItsPeerPostsTheGroup) {
  const Experiment experiment = listed(
      kTwoStages + std::string("rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0WAIT_SEND_F1 0F2 0SEND_F2 0RECV_B0 0B0 "
                               "0RECV_B1 0B1 0RECV_B2 0B2 0STEP\nrank 1: 1RECV_F0 1F0 1B0 "
                               "(1SEND_B0;1RECV_F1)GROUP 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1SEND_B2 1STEP\n"),
      3);
  EXPECT_NEAR(static_cast<double>(predicted_start(experiment, "0F2")), 20e6, 10);
  expect_predicted_times(experiment);
}

// Rank 0 starts F2 at once. If the transfers were a GROUP, rank 0 would wait until rank 1 posts its own group
// at 20 ms.
TEST(StandInListWaits, ARankGoesOnAtOnceAtAGroupForWhichItDoesNotWait) {
  const auto with = [](const std::string& word) {
    return listed(kTwoStages + std::string("rank 0: 0F0 0SEND_F0 0F1 (0SEND_F1;0RECV_B0)") + word +
                      " 0F2 0SEND_F2 0B0 0RECV_B1 0B1 0RECV_B2 0B2 0STEP\nrank 1: 1RECV_F0 1F0 1B0 "
                      "(1SEND_B0;1RECV_F1)GROUP 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1SEND_B2 1STEP\n",
                  3);
  };
  EXPECT_NEAR(static_cast<double>(predicted_start(with("GROUP"), "0F2")), 20e6, 10);
  EXPECT_NEAR(static_cast<double>(predicted_start(with("GROUP_NOWAIT"), "0F2")), 10e6, 10);
  expect_predicted_times(with("GROUP_NOWAIT"));
}

// Rank 1 computes the microbatches in reverse order. The group of rank 0 receives B5, so it needs all later
// messages of rank 0, and none of their buffers is free before. If rank 0 waited at the group, the two ranks
// would wait for each other.
TEST(StandInListWaits, AGroupForWhichARankDoesNotWaitMayEndAfterItsLaterMessages) {
  const auto with = [](const std::string& word) {
    return listed(
        kTwoStages + std::string("rank 0: 0F0 (0SEND_F0;0RECV_B5)") + word +
            " 0F1 0SEND_F1 0F2 0SEND_F2 0F3 0SEND_F3 0F4 0SEND_F4 0F5 0SEND_F5 0B5 0RECV_B4 0B4 0RECV_B3 0B3 "
            "0RECV_B2 0B2 0RECV_B1 0B1 0RECV_B0 0B0 0STEP\nrank 1: 1RECV_F0 1RECV_F1 1RECV_F2 1RECV_F3 "
            "1RECV_F4 1RECV_F5 1F5 1B5 1SEND_B5 1F4 1B4 1SEND_B4 1F3 1B3 1SEND_B3 1F2 1B2 1SEND_B2 1F1 1B1 "
            "1SEND_B1 1F0 1B0 1SEND_B0 1STEP\n",
        6);
  };
  const Experiment waiting = with("GROUP");
  EXPECT_TRUE(find_hang(waiting.program, waiting.channels, waiting.costs));
  expect_predicted_times(with("GROUP_NOWAIT"));
}

// Rank 0 has one microbatch and rank 1 has three. Rank 0 waits with B0 of stage 0 until rank 1 has reached
// the reduction of stage 1.
TEST(StandInListWaits, ARankWaitsForItsReductionBeforeTheNextStage) {
  const Experiment experiment = listed(
      "stage 0: ranks 0 1 route 0 1 1 1\nstage 1: ranks 0 1 route 0 1 1 1\n"
      "rank 0: 0F0 1F0 1B0 1REDUCE_GRAD 1WAIT_REDUCE_GRAD 0B0 0REDUCE_GRAD 0STEP 1STEP\n"
      "rank 1: 0F1 1F1 1B1 0F2 1F2 1B2 0F3 1F3 1B3 1REDUCE_GRAD 0B1 1WAIT_REDUCE_GRAD 0B2 0B3 0REDUCE_GRAD "
      "0WAIT_REDUCE_GRAD 0STEP 1STEP\n",
      4);
  EXPECT_NEAR(static_cast<double>(predicted_start(experiment, "0B0")), 60e6, 10);
  expect_predicted_times(experiment);
}

/// Returns the schedule with random WAITs and groups, or nothing if it would hang.
std::optional<Experiment> at_random(const std::string& schedule, const Shape& shape, std::uint32_t seed) {
  Experiment made = traced_experiment(schedule, shape, 2 * kMillisecond);
  // If stages are unequal, ranks wait for each other.
  for (std::size_t stage = 0; stage < made.costs.stages.size(); ++stage)
    made.costs.stages[stage].forward_ns += static_cast<Ns>(stage % 3) * kMillisecond;
  group_some(made.program, seed);
  wait_at_no(made.program, seed + 1);
  add_waits(made.program, seed + 2);
  const auto valid = validate(made.program);
  EXPECT_TRUE(valid) << valid.error();
  if (find_hang(made.program, made.channels, made.costs)) return std::nullopt;
  return made;
}

TEST(StandInListWaits, SchedulesWithWaitsAndGroupsAtRandomTakeAsLongAsPredicted) {
  int run = 0;
  for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "zb-v"}) {
    for (std::uint32_t seed = 1; seed <= 6; ++seed) {
      Shape shape{.stages = 2 + static_cast<std::int32_t>(seed % 3), .microbatches = 8};
      shape.virtual_stages = chunks_to_try(*find_schedule(schedule));
      if (seed % 2 == 0 && std::string(schedule) == "1f1b") {
        shape.data_parallel = 2;
        shape.sharding = seed % 4 == 0 ? 2 : 0;
      }
      if (!generate(schedule, shape)) continue;
      const auto experiment = at_random(schedule, shape, seed);
      if (!experiment) continue;
      SCOPED_TRACE(fmt::format("{} {}:\n{}", schedule, seed, to_text(experiment->program)));
      for (const Through through : {Through::copies, Through::nccl})
        expect_predicted_times(*experiment, through, seed);
      ++run;
    }
  }
  EXPECT_GE(run, 8);
}

}  // namespace
}  // namespace penstock
