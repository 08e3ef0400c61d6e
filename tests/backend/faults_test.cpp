// Tests what happens if a worker fails or a peer is stuck: all workers end, and the error names the place.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/threads/in_process_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/deadlines.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/faulty_module.hpp"
#include "tests/backend/watched_transport.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void throws(const std::stop_token&) { throw std::runtime_error("the weights are gone"); }

void is_stuck(const std::stop_token& stop) {
  while (!stop.stop_requested()) std::this_thread::sleep_for(milliseconds(1));
}

std::ptrdiff_t thread_count() {
  std::thread([] {}).join();  // with the first thread, a sanitizer starts a thread of its own
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// Returns true if there are at most this many threads. A thread that was joined may still be visible for a
/// moment.
bool has_at_most(std::ptrdiff_t threads) {
  for (int attempt = 0; attempt < 2000; ++attempt) {
    if (thread_count() <= threads) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

/// Runs a program in which one module is at fault, and returns the error. For each run it also checks that no
/// thread remains.
class FaultyThreads {
 public:
  explicit FaultyThreads(const Program& program, Ns forward_ns = 0)
      : program_(program),
        costs_(with_forward(free_costs(program), forward_ns)),
        flat_(flatten(program_, costs_, {.channels = {}, .iterations = program_.iterations})),
        transport_(flat_, {}, {}, clock_),
        modules_(occupy_modules(program_, costs_, clock_, {})) {}

  FaultyThreads& with_fault(std::int32_t rank, const Fault& fault, int at) {
    for (auto& module : modules_[static_cast<std::size_t>(rank)]) {
      if (module) module = std::make_unique<FaultyModule>(fault, at);
    }
    return *this;
  }

  const FlatProgram& flat() const { return flat_; }

  ExecutionError error(milliseconds deadline, std::int32_t lost = kNone) {
    WatchedTransport transport(transport_, lost);
    const std::ptrdiff_t threads_before = thread_count();
    const auto begin = steady_clock::now();
    auto timeline = execute({.program = program_,
                             .flat = flat_,
                             .modules = modules_,
                             .transport = transport,
                             .clock = clock_,
                             .deadline = deadline});
    took_ = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
    EXPECT_TRUE(has_at_most(threads_before));
    if (!timeline) return std::move(timeline.error());
    ADD_FAILURE() << "the run ended well";
    return {};
  }

  milliseconds took() const { return took_; }

 private:
  static CostTable with_forward(CostTable costs, Ns forward_ns) {
    for (StageCost& cost : costs.stages) cost.forward_ns = forward_ns;
    return costs;
  }

  Program program_;
  CostTable costs_;
  SteadyClock clock_;
  FlatProgram flat_;
  InProcessTransport transport_;
  StageModules modules_;
  milliseconds took_{};
};

Program one_f_one_b_on(std::int32_t stages) {
  return lowered(*generate("1f1b", {.stages = stages, .microbatches = 8}));
}

/// Returns the message that a rank's action waits for or moves.
std::int32_t message_of(const FlatProgram& flat, std::int32_t rank, const std::string& action) {
  for (std::int32_t p = flat.rank_begin[static_cast<std::size_t>(rank)]; p < flat.position_count(); ++p) {
    if (to_text(flat.actions[static_cast<std::size_t>(p)]) == action)
      return flat.message[static_cast<std::size_t>(p)];
  }
  ADD_FAILURE() << "no action " << action;
  return kNone;
}

TEST(Faults, AWorkerThatThrowsEndsAllOthers) {
  FaultyThreads run(one_f_one_b_on(4));
  const ExecutionError error = run.with_fault(1, throws, 0).error(kLong);
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(error.action, "1F0");
  EXPECT_TRUE(error.message.starts_with("rank 1: 1F0: the weights are gone")) << error.message;
  EXPECT_LT(run.took(), kSoon);
}

TEST(Faults, AWorkerWithoutMemorySaysSo) {
  FaultyThreads run(one_f_one_b_on(2));
  const ExecutionError error =
      run.with_fault(1, [](const std::stop_token&) { throw std::bad_alloc(); }, 0).error(kLong);
  EXPECT_TRUE(error.message.starts_with("rank 1: 1F0: it has too little memory")) << error.message;
}

TEST(Faults, AStuckWorkerIsFoundByItsDeadlineAndNamedWithItsPeer) {
  FaultyThreads run(one_f_one_b_on(2));
  const ExecutionError error = run.with_fault(0, is_stuck, 0).error(kKept);
  EXPECT_EQ(error.rank, 0);
  EXPECT_EQ(error.peer, 1);
  EXPECT_EQ(error.message, "rank 0: 0F0: still running after 2 s; rank 1 waits for it at 1F0");
  EXPECT_GE(run.took(), kKept);
  EXPECT_LT(run.took(), kSoon);
}

TEST(Faults, AStuckWorkerIsFoundWhileOthersGetOn) {
  Shape shape{.stages = 1, .microbatches = 800};
  shape.replicas = {2};
  shape.replica_sync = ReplicaSync::off;
  FaultyThreads run(lowered(*generate("data-parallel", shape)), 100'000'000);  // rank 1 computes for 40 s
  const ExecutionError error = run.with_fault(0, is_stuck, 3).error(kKept);
  EXPECT_EQ(error.rank, 0);
  EXPECT_EQ(error.peer, -1);
  EXPECT_LT(run.took(), std::chrono::seconds(30)) << "before rank 1 has done its part";
}

TEST(Faults, AMessageThatNeverComesNamesActionAndPeer) {
  FaultyThreads run(one_f_one_b_on(2));
  const ExecutionError error = run.error(kKept, message_of(run.flat(), 0, "0SEND_F0"));
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(error.action, "1F0");
  EXPECT_EQ(error.peer, 0);
  EXPECT_EQ(error.message, "rank 1: 1F0: waited 2 s for 1RECV_F0 from rank 0, which stands at 0B0");
}

TEST(Faults, AMemberThatNeverJoinsIsNamedAsThePeer) {
  Shape shape{.stages = 1, .microbatches = 4};
  shape.replicas = {2};
  FaultyThreads run(lowered(*generate("data-parallel", shape)));
  const ExecutionError error = run.error(kKept, message_of(run.flat(), 0, "0REDUCE_GRAD"));
  EXPECT_NE(error.message.find("0STEP: waited 2 s for 0REDUCE_GRAD from rank"), std::string::npos)
      << error.message;
}

TEST(Faults, ALongWaitIsNoFaultWhileOthersGetOn) {
  // Rank 0 waits for ten actions of other ranks, which take 3 s.
  const Program program = lowered(*generate("naive", {.stages = 6, .microbatches = 1}));
  CostTable costs = free_costs(program);
  for (StageCost& cost : costs.stages) cost.forward_ns = cost.backward_ns = 300'000'000;
  const SteadyClock clock;
  const FlatProgram flat = flatten(program, costs, {.channels = {}, .iterations = 1});
  InProcessTransport transport(flat, {}, {}, clock);
  StageModules modules = occupy_modules(program, costs, clock, {});
  const auto timeline = execute({.program = program,
                                 .flat = flat,
                                 .modules = modules,
                                 .transport = transport,
                                 .clock = clock,
                                 .deadline = std::chrono::seconds(2)});
  EXPECT_TRUE(timeline) << timeline.error().message;
}

// Rank 0 is in 0F0, which takes an hour, and no other rank waits for it. Then rank 1 throws.
TEST(Faults, ALongOccupationEndsWhenAnotherWorkerFails) {
  Shape shape{.stages = 1, .microbatches = 4};
  shape.replicas = {2};
  shape.replica_sync = ReplicaSync::off;
  FaultyThreads run(lowered(*generate("data-parallel", shape)), 3'600'000'000'000);
  const ExecutionError error = run.with_fault(1, throws, 0).error(kLong);
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(error.message, "rank 1: 0F1: the weights are gone");
  EXPECT_LT(run.took(), kSoon);
}

TEST(Faults, HundredsOfFailuresAtRandomMomentsLeaveNothingBehind) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const auto stages = static_cast<std::int32_t>(2 + random() % 3);
    const auto rank = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(stages));
    const auto at = static_cast<int>(random() % 16);
    const bool sticks = random() % 8 == 0;
    SCOPED_TRACE(testing::Message() << "case " << i);
    FaultyThreads run(one_f_one_b_on(stages));
    const milliseconds deadline = sticks ? milliseconds(100) : milliseconds(kLong);
    const ExecutionError error = run.with_fault(rank, sticks ? is_stuck : throws, at).error(deadline);
    EXPECT_TRUE(error.rank == rank || sticks) << error.message;
    EXPECT_NE(error.action, "");
    EXPECT_LT(run.took(), kSoon);
  }
}

TEST(Faults, ASuspensionOfTheProcessIsNoRanksFault) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    FaultyThreads run(lowered(*generate("1f1b", {.stages = 2, .microbatches = 8})), 400'000'000);
    const std::string words = run.error(kKept).message;
    _exit(write(ends[1], words.data(), words.size()) < 0 ? 1 : 0);
  }
  std::this_thread::sleep_for(milliseconds(300));
  kill(child, SIGSTOP);
  std::this_thread::sleep_for(2 * kKept);
  kill(child, SIGCONT);
  waitpid(child, nullptr, 0);
  std::array<char, 1024> words{};
  EXPECT_GT(read(ends[0], words.data(), words.size() - 1), 0);
  EXPECT_TRUE(std::string_view(words.data()).starts_with("the run was suspended for ")) << words.data();
  for (const int end : ends) close(end);
}

}  // namespace
}  // namespace penstock
