// Tests measured results and their comparison with predictions.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/task_room.hpp"
#include "backend/executor/transport.hpp"
#include "backend/threads/thread_run.hpp"
#include "report/compare/compare.hpp"
#include "report/result/result.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/backend/execution.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

Experiment small_experiment(const std::string& schedule) {
  return uniform_experiment(schedule, {.stages = 2, .microbatches = 4},
                            {.forward_ns = 2'000'000, .backward_ns = 2'000'000});
}

Result measured(const Experiment& experiment, const RunOptions& options = {}) {
  auto result = run_on_threads(experiment, free_links, options, OccupyFamily(experiment, {}));
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

TEST(ThreadRun, AResultIsAMeasurementOfTheVeryProgramThatWasPredicted) {
  const Experiment experiment = small_experiment("1f1b");
  const Result result = measured(experiment, {.warmup = 0, .repeats = 3});
  const auto predicted = simulate(experiment, {});
  ASSERT_TRUE(predicted);
  EXPECT_EQ(result.kind, ResultKind::measured);
  EXPECT_EQ(result.engine, "cpu-thread");
  EXPECT_EQ(result.channel, "directed");
  EXPECT_EQ(result.program, predicted->program);
  EXPECT_EQ(result.ranks[1].device, predicted->ranks[1].device);
  EXPECT_EQ(result.timeline.spans.size(), predicted->timeline.spans.size());
  EXPECT_EQ(result.makespan_ns, result.timeline.makespan_ns);
  EXPECT_GE(result.makespan_ns, predicted->makespan_ns);
}

TEST(ThreadRun, ReportsEachRunThatHasFinished) {
  std::vector<std::string> reports;
  measured(small_experiment("1f1b"),
           {.warmup = 1, .repeats = 2, .progress = [&](std::size_t done, std::size_t total) {
              reports.push_back(std::to_string(done) + " of " + std::to_string(total));
            }});
  EXPECT_EQ(reports, (std::vector<std::string>{"1 of 3", "2 of 3", "3 of 3"}));
}

TEST(ThreadRun, TimesAreDividedByTheScaleAtWhichTheyWereHeld) {
  const Experiment experiment = small_experiment("gpipe");  // its makespan is 20 ms
  const auto begin = std::chrono::steady_clock::now();
  const Result result = measured(experiment, {.warmup = 0, .repeats = 3, .time_scale = 2});
  const auto spent = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(spent, 3 * 2 * std::chrono::milliseconds(20));
  EXPECT_GE(result.makespan_ns, 20'000'000);
  EXPECT_LE(std::chrono::nanoseconds(2 * result.makespan_ns), spent) << "in the time of the scenario";
  EXPECT_NE(result.notes.back().find("held 2 times as long"), std::string::npos);
}

TEST(ThreadRun, ADeadlineShorterThanThePauseBetweenTwoLooksIsEnforcedToo) {
  const Experiment experiment = uniform_experiment("gpipe", {.stages = 2, .microbatches = 1},
                                                   {.forward_ns = 3'000'000'000, .backward_ns = 1'000'000});
  const auto result = run_on_threads(experiment, free_links,
                                     {.warmup = 0, .repeats = 1, .deadline = std::chrono::milliseconds(1)},
                                     OccupyFamily(experiment, {}));
  ASSERT_FALSE(result) << "an action of 3 s ended well";
  EXPECT_EQ(result.error().kind, ErrorKind::run_failed);
  EXPECT_TRUE(result.error().message.starts_with("rank 0: 0F0: still running after 0.01 s"))
      << result.error().message;
}

TEST(ThreadRun, ThreadsWithoutRoomForTheirStacksAreRefused) {
  const ThreadRoom room{.stack = Bytes{8} << 20, .left = Bytes{1} << 30};
  EXPECT_FALSE(threads_refusal(96, room)) << "three quarters of a gibibyte";
  EXPECT_EQ(
      threads_refusal(97, room),
      "97 ranks take a thread each, and stacks of 8.00 MiB leave room for 96 in the 1.00 GiB of "
      "addresses within reach (ulimit -v): take fewer ranks, or smaller stacks (ulimit -s 512), or allow "
      "more addresses");
  const ThreadRoom mapped{.stack = Bytes{8} << 20, .mappings = 8000};
  EXPECT_FALSE(threads_refusal(3000, mapped));
  EXPECT_EQ(threads_refusal(3001, mapped),
            "3001 ranks take a thread each, and the kernel lets a process have the stacks of 3000 more "
            "(vm.max_map_count): take fewer ranks, or allow more");
}

TEST(ThreadRun, MoreThreadsThanMayBeStartedAreRefused) {
  const ThreadRoom room{.tasks = TaskRoom{.left = 500, .bound = "ulimit -u"}};
  EXPECT_FALSE(threads_refusal(500, room));
  EXPECT_EQ(threads_refusal(501, room),
            "501 ranks take a thread each, and 500 more threads may be started here (ulimit -u): take fewer "
            "ranks, or allow more");
  EXPECT_FALSE(threads_refusal(1'000'000, {})) << "no bound is known";
}

/// Returns the error for a program with these lists on the in-process transport, which has directed channels.
std::string refusal_of(const std::string& lists) {
  Experiment experiment = small_experiment("gpipe");
  experiment.program = read_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n" + lists);
  experiment.channels.model = ChannelModel::boundary;
  const auto result = run_on_threads(experiment, free_links, {}, OccupyFamily(experiment, {}));
  if (result) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::check_failed);
  return result.error().message;
}

TEST(ThreadRun, AProgramThatHangsOnTheTransportIsRefused) {
  // Rank 1 waits for F1 before it sends the gradient for which rank 0 waits before F1.
  EXPECT_THAT(refusal_of("rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1 0STEP\n"
                         "rank 1: 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1STEP\n"),
              testing::StartsWith("the program hangs on the in-process transport (directed channels):"));
}

TEST(ThreadRun, AProgramWhoseMessagesCrossOnTheTransportIsRefused) {
  // Rank 1 receives the messages of rank 0 in the opposite order.
  const std::string refusal = refusal_of(
      "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B1 0RECV_B0 0B1 0B0 0STEP\n"
      "rank 1: 1RECV_F1 1RECV_F0 1F1 1F0 1B1 1SEND_B1 1B0 1SEND_B0 1STEP\n");
  EXPECT_THAT(refusal, testing::StartsWith("the program has messages that cross on the in-process transport "
                                           "(directed channels):"));
  EXPECT_THAT(refusal, testing::HasSubstr("rank 0 sends 0SEND_F0 where rank 1 expects 1RECV_F1"));
}

}  // namespace
}  // namespace penstock
