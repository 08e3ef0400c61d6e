// Processes compute what threads compute: the payloads and the times really cross the sockets.

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/process/process_execution.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/backend/echo_module.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/sequential_training.hpp"

namespace penstock {
namespace {

/// The timelines of an echo run whose payloads are checked in each process; test-fatal when it fails.
std::vector<Timeline> run_in_processes(const Program& program, std::int32_t runs = 1, LinkPace pace = {}) {
  const FlatProgram flat =
      flatten(program, free_costs(program), {.channels = {}, .iterations = program.iterations});
  const auto expected = echo::gradients_of(program);
  const EchoCodec codec;
  auto executed =
      execute_in_processes({.program = program,
                            .flat = flat,
                            .modules = [&](std::int32_t, const Clock&) { return echo_modules(program); },
                            .pace = std::move(pace),
                            .codec = &codec,
                            .runs = runs,
                            .deadline = std::chrono::seconds(20),
                            .finished =
                                [&](std::int32_t rank, const StageModules& modules) {
                                  const std::string found =
                                      difference_on_rank(program, modules, expected, rank);
                                  if (!found.empty()) throw std::runtime_error(found);
                                  return RankAccount{};
                                }});
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  if (!executed) throw std::runtime_error(executed.error().message + "\n" + to_text(program));
  std::vector<Timeline> timelines;
  for (ExecutedRun& run : *executed) timelines.push_back(std::move(run.timeline));
  return timelines;
}

/// Every span, and every one but transfers and collectives after the one before it on its rank.
void expect_complete(const Program& program, const Timeline& timeline) {
  std::size_t actions = 0;
  for (const auto& list : program.ranks)
    actions += list.size() * static_cast<std::size_t>(program.iterations);
  EXPECT_EQ(timeline.spans.size(), actions);
  Ns first = timeline.makespan_ns;
  Ns last = 0;
  for (const Span& span : timeline.spans) {
    EXPECT_LE(span.start_ns, span.end_ns);
    first = std::min(first, span.start_ns);
    last = std::max(last, span.end_ns);
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(last, timeline.makespan_ns);
}

/// Runs two iterations of one shape; false when the generator refuses it.
bool computes_what_threads_do(const ScheduleInfo& schedule, const Shape& shape) {
  const auto program = generate(schedule.name, shape);
  if (!program) return false;
  const Program complete = lowered(*program);
  expect_complete(complete, run_in_processes(complete).at(0));
  return true;
}

TEST(ProcessNumbers, EveryGeneratorComputesTheGradientsOfTheUnsplitModel) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    const bool has_chunks = takes_chunks(schedule);
    std::string ran;
    std::string refused;
    for (const std::int32_t stages : {1, 2, 4}) {
      for (const std::int32_t microbatches : {1, 2, 4, 8}) {
        for (const std::int32_t chunks : {1, 2}) {
          if (chunks > 1 && !has_chunks) continue;
          const std::string name = " K" + std::to_string(stages) + "M" + std::to_string(microbatches) +
                                   (chunks == 1 ? "" : "v" + std::to_string(chunks));
          SCOPED_TRACE(std::string(schedule.name) + name);
          const bool accepted = computes_what_threads_do(
              schedule,
              {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks, .iterations = 2});
          (accepted ? ran : refused) += name;
        }
      }
    }
    EXPECT_NE(ran, "") << schedule.name;
    std::cout << "  " << schedule.name << ": ran" << ran << "; refused" << refused << '\n';
  }
}

TEST(ProcessNumbers, OneRankIsOneProcess) {
  const Program program = lowered(*generate("gpipe", {.stages = 1, .microbatches = 3}));
  expect_complete(program, run_in_processes(program).at(0));
}

TEST(ProcessNumbers, ReplicasReduceTheirGradientsInOrder) {
  Shape shape{.stages = 3, .microbatches = 12};
  shape.replicas = {4, 2, 2};
  const Program program = lowered(*generate("1f1b-rr", shape));
  expect_complete(program, run_in_processes(program).at(0));
}

TEST(ProcessNumbers, ShardedStagesAreGatheredAroundTheirUse) {
  for (const std::int32_t sharding : {1, 3}) {
    Shape shape{.stages = 2, .microbatches = 6, .iterations = 2};
    shape.replicas = {3};
    shape.sharding = sharding;
    const Program program = lowered(*generate("data-parallel", shape));
    expect_complete(program, run_in_processes(program).at(0));
  }
}

TEST(ProcessNumbers, BarriersSeparateIterationsAndRunsFollowEachOther) {
  const Program program =
      lowered(*generate("1f1b", {.stages = 3, .microbatches = 4, .iterations = 3, .barrier = true}));
  const auto timelines = run_in_processes(program, 3);
  ASSERT_EQ(timelines.size(), 3);
  for (const Timeline& timeline : timelines) {
    Ns last_of_first = 0;
    Ns first_of_second = timeline.makespan_ns;
    for (const Span& span : timeline.spans) {
      if (!has_microbatch(span.action.kind) || !is_compute(span.action.kind)) continue;
      if (span.action.microbatch < 4) last_of_first = std::max(last_of_first, span.end_ns);
      if (span.action.microbatch >= 4) first_of_second = std::min(first_of_second, span.start_ns);
    }
    EXPECT_LE(last_of_first, first_of_second);
  }
}

TEST(ProcessNumbers, EmulatedLinksHoldTheirQueueAndDelayArrival) {
  constexpr Ns kHold = 3'000'000;
  constexpr Ns kLatency = 5'000'000;
  const Program program = lowered(*generate("gpipe", {.stages = 2, .microbatches = 4}));
  const auto messages = static_cast<std::size_t>(2 * 4);
  const Timeline timeline = run_in_processes(program, 1,
                                             {.hold = std::vector<Ns>(messages, kHold),
                                              .latency = std::vector<Ns>(messages, kLatency)})
                                .at(0);
  std::vector<Ns> starts;
  for (const Span& span : timeline.spans) {
    if (is_transfer(span.action.kind)) {
      EXPECT_EQ(span.end_ns - span.start_ns, kHold + kLatency);
    }
    if (span.action.kind == ActionKind::send_forward) starts.push_back(span.start_ns);
    if (span.action.kind != ActionKind::forward || span.rank != 1) continue;
    const auto recv = std::ranges::find_if(timeline.spans, [&](const Span& other) {
      return other.action.kind == ActionKind::recv_forward &&
             other.action.microbatch == span.action.microbatch;
    });
    EXPECT_GE(span.start_ns, recv->end_ns);
  }
  ASSERT_EQ(starts.size(), 4);
  for (std::size_t i = 1; i < starts.size(); ++i) EXPECT_GE(starts[i] - starts[i - 1], kHold);
}

TEST(ProcessNumbers, ACheckThatFailsInAProcessIsTheRunsError) {
  const Program program = lowered(*generate("1f1b", {.stages = 2, .microbatches = 4}));
  const FlatProgram flat = flatten(program, free_costs(program), {.channels = {}, .iterations = 1});
  const EchoCodec codec;
  const auto timelines =
      execute_in_processes({.program = program,
                            .flat = flat,
                            .modules = [&](std::int32_t, const Clock&) { return echo_modules(program); },
                            .codec = &codec,
                            .finished =
                                [](std::int32_t rank, const StageModules&) {
                                  if (rank == 1) throw std::runtime_error("the numbers differ");
                                  return RankAccount{};
                                }});
  ASSERT_FALSE(timelines);
  // On a busy machine rank 0 may not have ended yet, and waits for it.
  EXPECT_THAT(timelines.error().message,
              testing::StartsWith("rank 1: the end of its list: the numbers differ"));
}

}  // namespace
}  // namespace penstock
