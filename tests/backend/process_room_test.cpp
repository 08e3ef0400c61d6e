// Room for processes: what a run takes of the machine, and what is said where that is not there.

#include "backend/process/process_room.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "backend/executor/task_room.hpp"
#include "backend/process/process_execution.hpp"
#include "scenarios/host/memory_room.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/process_fixture.hpp"

namespace penstock {
namespace {

constexpr ProcessNeed kHundredRanks = {.ranks = 100, .descriptors = 150, .of_each = Bytes{1} << 20};

TEST(ProcessRoom, ProcessesThatMayNotBeStartedAreRefused) {
  ProcessRoom room{.tasks = TaskRoom{.left = 200, .bound = "kernel.pid_max"}};
  EXPECT_FALSE(processes_refusal(kHundredRanks, room));
  room.tasks->left = 199;
  EXPECT_EQ(processes_refusal(kHundredRanks, room),
            "100 ranks take a process of two threads each, and 199 more threads may be started here "
            "(kernel.pid_max): take fewer ranks, or allow more");
}

TEST(ProcessRoom, FilesThatMayNotBeOpenedAreRefused) {
  EXPECT_FALSE(processes_refusal(kHundredRanks, {.descriptors = 150}));
  EXPECT_EQ(processes_refusal(kHundredRanks, {.descriptors = 149}),
            "100 ranks take a process each, and 150 open files in the one that starts them, which may open "
            "149 more: take fewer ranks, or allow more open files (ulimit -Hn)");
}

TEST(ProcessRoom, ProcessesThatMemoryCannotHoldAreRefused) {
  EXPECT_FALSE(processes_refusal(kHundredRanks, {.memory = Bytes{100} << 20}));
  EXPECT_EQ(processes_refusal(kHundredRanks, {.memory = Bytes{99} << 20}),
            "100 processes, one for each rank, take at least 100.00 MiB of memory, and 99.00 MiB are within "
            "reach: take fewer ranks, microbatches or iterations, or --backend cpu-thread");
}

TEST(ProcessRoom, ThreadsWithoutAddressesForTheirStacksAreRefused) {
  const ProcessNeed need = {.ranks = 4, .of_each = Bytes{1} << 20, .stacks_of_each = Bytes{8} << 20};
  EXPECT_FALSE(processes_refusal(need, {.addresses = Bytes{9} << 20}));
  EXPECT_EQ(
      processes_refusal(need, {.addresses = (Bytes{9} << 20) - 1}),
      "4 ranks take a process each, of at least 9.00 MiB of addresses, 8.00 MiB of them for stacks of "
      "threads, and 9.00 MiB are within reach (ulimit -v): allow more addresses, or take smaller stacks "
      "(ulimit -s 512), fewer microbatches or iterations");
}

TEST(ProcessRoom, WhereNothingIsKnownNothingIsRefused) {
  EXPECT_FALSE(processes_refusal({.ranks = 1'000'000,
                                  .descriptors = 1'000'000,
                                  .of_each = Bytes{1} << 40,
                                  .stacks_of_each = Bytes{1} << 40},
                                 {}));
}

Program pipeline_of(std::int32_t stages) { return *generate("1f1b", {.stages = stages, .microbatches = 4}); }

FlatProgram flat_of(const Program& program) {
  const Program placed = lowered(program);
  return flatten(placed, free_costs(placed), {.channels = {}, .iterations = placed.iterations});
}

/// The status of a process in which the run may open so many files more: 0, or 1 where they are too few.
int status_with(const FaultyRun& run, std::int64_t more_files) {
  const pid_t tight = fork();  // a hard limit cannot be taken back
  if (tight == 0) {
    close_range(3, ~0U, 0);  // whatever else this process has been given
    const auto allowed = static_cast<rlim_t>(3 + more_files);
    const rlimit limit = {.rlim_cur = allowed, .rlim_max = allowed};
    setrlimit(RLIMIT_NOFILE, &limit);
    const auto ended = execute_in_processes(run.execution(std::chrono::seconds(20)));
    const bool too_few = !ended && ended.error().message.find("Too many open files") != std::string::npos;
    _exit(ended ? 0 : too_few ? 1 : 2);
  }
  int status = 0;
  waitpid(tight, &status, 0);
  return status;
}

TEST(ProcessRoom, DescriptorsAreCountedAsTheyAreOpened) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer asks over a pipe what memory can be read, and finds faults where it gets none";
#endif
  for (const Program& program :
       {pipeline_of(12), *generate("interleaved", {.stages = 6, .microbatches = 6, .virtual_stages = 2}),
        *generate("data-parallel", {.stages = 1, .microbatches = 9, .replicas = {9}}),
        *generate("1f1b", {.stages = 3, .microbatches = 8, .data_parallel = 4})}) {
    const FaultyRun run(program, 0);
    const ProcessNeed need = process_need(flat_of(program));
    EXPECT_EQ(need.ranks, program.rank_count());
    EXPECT_EQ(status_with(run, need.descriptors), 0) << program.schedule;
    // Without what is there for the coordinator's loop, and one less.
    EXPECT_EQ(WEXITSTATUS(status_with(run, need.descriptors - 17)), 1) << program.schedule;
  }
}

TEST(ProcessRoom, APipelinesProcessesTakeNoMoreOfAPairOfRanksEach) {
  const std::int64_t of_100 = process_need(flat_of(pipeline_of(100))).descriptors;
  const std::int64_t of_200 = process_need(flat_of(pipeline_of(200))).descriptors;
  EXPECT_EQ(of_200 - of_100, 100);
}

TEST(ProcessRoom, ALaunchedRankThatCannotMeetTheOthersSaysSo) {
  const FlatProgram flat = flat_of(pipeline_of(100));
  EXPECT_FALSE(launched_refusal(flat, 0, {.descriptors = 400}));
  EXPECT_EQ(launched_refusal(flat, 0, {.descriptors = 200}),
            "rank 0 of 100 takes 245 open files, to be connected with the others, and may open 200 more: "
            "allow more open files (ulimit -Hn), or take fewer ranks");
  EXPECT_FALSE(launched_refusal(flat, 1, {.descriptors = 200})) << "it has two peers and a coordinator";
}

TEST(ProcessRoom, ALaunchedRankThatHasNoAddressesForItsThreadsSaysSo) {
  const FlatProgram flat = flat_of(pipeline_of(2));
  const Bytes stack = stack_of_a_thread();
  const Bytes memory = process_need(flat).of_each;
  EXPECT_FALSE(launched_refusal(flat, 1, {.addresses = memory + stack}));
  EXPECT_TRUE(launched_refusal(flat, 1, {.addresses = memory + stack - 1})
                  .value_or("")
                  .starts_with("rank 1 of 2 takes at least "));
  EXPECT_FALSE(launched_refusal(flat, 0, {.addresses = memory + 2 * stack}));
  EXPECT_TRUE(launched_refusal(flat, 0, {.addresses = memory + 2 * stack - 1})) << "it coordinates, too";
}

TEST(ProcessRoom, OfThisMachineIsSomeRoom) {
  const ProcessRoom room = process_room();
  EXPECT_GT(room.descriptors.value_or(1), 0);
  EXPECT_GT(room.tasks ? room.tasks->left : 1, 0);
}

}  // namespace
}  // namespace penstock
