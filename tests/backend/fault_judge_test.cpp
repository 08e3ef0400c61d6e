// Tests that the coordinator names the rank that is missing or late when it has waited long enough. Also
// tests that the watchdog finds late ranks from the progress that workers publish, and that a parent learns
// how its children ended.

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/executor.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/process_execution.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/process_fixture.hpp"

namespace penstock {
namespace {

/// A judge with two ranks that have joined. The time limit of the present wait has passed.
class FaultJudgeTest : public testing::Test {
 protected:
  FaultJudgeTest() {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      Hello hello;
      hello.rank = rank;
      EXPECT_FALSE(attendance_.join(rank + 1, hello));
    }
    attendance_.await_all();
  }

  std::string fault_in(Phase phase) const {
    const auto fault = judge_.judge({.phase = phase,
                                     .run = 0,
                                     .until = std::chrono::steady_clock::now() - std::chrono::seconds(1),
                                     .took = std::chrono::milliseconds(1)});
    return fault ? fault->message : "";
  }

  FaultyRun run_{one_f_one_b_of(2)};
  ProcessExecution execution_ = run_.execution(std::chrono::seconds(20), std::chrono::seconds(1));
  std::array<Progress, 2> progress_;
  Attendance attendance_{2};
  FaultJudge judge_{execution_, {}, progress_, attendance_};
};

TEST_F(FaultJudgeTest, WhoHasNotMadeReadyInTimeIsNamed) {
  attendance_.arrive(0);
  EXPECT_EQ(fault_in(Phase::preparing),
            "rank 1: the start: waited 1 s for rank 1 to make ready for run 0; rank 0 waits for it there");
}

TEST_F(FaultJudgeTest, WhoHasNotJoinedInTimeIsNamedWithARankThatHas) {
  const RankProcesses forked = {.how_ended = [](std::int32_t) { return std::nullopt; },
                                .is_suspended = [](std::int32_t rank) { return rank == 0; }};
  const auto words_with = [&](std::initializer_list<std::int32_t> joined) {
    Attendance attendance(2);
    for (const std::int32_t rank : joined) {
      Hello hello;
      hello.rank = rank;
      EXPECT_FALSE(attendance.join(rank + 1, hello));
    }
    const FaultJudge judge(execution_, forked, progress_, attendance);
    const auto fault = judge.judge({.phase = Phase::joining,
                                    .run = 0,
                                    .until = std::chrono::steady_clock::now() - std::chrono::seconds(1),
                                    .took = std::chrono::milliseconds(1)});
    return fault ? fault->message : "";
  };
  EXPECT_EQ(words_with({0}), "rank 1: the start: waited 1 s for rank 1 to join; rank 0 waits for it there");
  EXPECT_EQ(
      words_with({1}),
      "rank 0: the start: waited 1 s for rank 0 to join, suspended by a signal; rank 1 waits for it there");
  EXPECT_EQ(
      words_with({}),
      "rank 0: the start: waited 1 s for ranks 0, 1 to join, suspended by a signal; rank 1 is not there, "
      "either");
}

TEST_F(FaultJudgeTest, LaunchedRanksMayHaveLongerToComeThanToMakeReady) {
  execution_.patience_to_join = std::chrono::seconds(30);
  EXPECT_EQ(judge_.patience_of(Phase::joining), std::chrono::seconds(30));
  EXPECT_EQ(judge_.patience_of(Phase::preparing), std::chrono::seconds(1));
}

TEST_F(FaultJudgeTest, ForkedRanksWaitForEachOtherAsLongAsIsAskedForToo) {
  const auto runs = [](std::int32_t) { return std::optional<std::string>(); };
  const FaultJudge judge(execution_, {.how_ended = runs}, progress_, attendance_);
  EXPECT_EQ(judge.patience_of(Phase::joining), std::chrono::seconds(1)) << "no longer than for anything else";
  execution_.patience_to_join = std::chrono::seconds(30);
  EXPECT_EQ(judge.patience_of(Phase::joining), std::chrono::seconds(30));
}

TEST_F(FaultJudgeTest, WhereTheLastOneHasComeLateNobodyIsNamed) {
  attendance_.arrive(0);
  attendance_.arrive(1);
  for (const Phase phase : {Phase::joining, Phase::comparing, Phase::preparing})
    EXPECT_EQ(fault_in(phase), "");
}

// Tests which ranks the watchdog considers late if workers publish their progress while it reads.

constexpr std::chrono::seconds kLateAfter(1);
constexpr std::int64_t kMomentOfLook = 60'000'000'000;

/// Writes the progress of a rank in the order of RankWorker: the time comes first.
void note_standing(Progress& progress, std::int32_t position, std::int32_t message, std::int64_t since_ns) {
  progress.since_ns = since_ns;
  progress.position = position;
  progress.waits_for = message;
}

/// Rank 1 has waited for 1RECV_F0 for a minute. This is no fault while rank 0 makes progress. The wait ends
/// while the watchdog looks.
TEST(Watchdog, ARankWhoseLongWaitEndsWhileItLooksIsNotLate) {
  const Program program = read_program(
      "penstock program 1\nschedule one-way\nmicrobatches 1\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1STEP\n");
  const FlatProgram flat = flatten(program, free_costs(program), {.channels = {}, .iterations = 1});
  const std::int32_t forward = flat.rank_begin[1] + 1;
  std::array<Progress, 2> progress;
  const Watchdog watchdog(flat, progress, kLateAfter);
  note_standing(progress[0], flat.rank_begin[0], kNone, kMomentOfLook);

  std::atomic<int> ready = 0;  // number of rounds that the watchdog has begun; -1 after the last round
  std::atomic<int> ended = 0;  // number of rounds in which the wait has ended
  std::jthread worker([&] {
    for (int round = 1;; ++round) {
      while (ready >= 0 && ready < round) continue;
      if (ready < 0) return;
      note_standing(progress[1], forward, kNone, kMomentOfLook);
      ended = round;
    }
  });
  int taken_for_late = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 1; std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1000); ++round) {
    note_standing(progress[1], forward, flat.message[static_cast<std::size_t>(forward - 1)], 0);
    ready = round;
    do {
      if (watchdog.overdue(kMomentOfLook)) ++taken_for_late;
    } while (ended < round);
  }
  ready = -1;
  EXPECT_EQ(taken_for_late, 0);
}

// Tests how children end, and what their parent reports if the child has no socket left to report over.

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Returns how a child ends that cannot report over a socket.
std::string end_of_child(const std::function<int()>& work) {
  ChildProcesses children;
  const auto started = children.start(work);
  EXPECT_TRUE(started);
  std::optional<std::string> how;
  for (const auto until = steady_clock::now() + seconds(5); !how && steady_clock::now() < until;) {
    how = children.how_ended(0);
    std::this_thread::sleep_for(milliseconds(1));
  }
  return how.value_or("it goes on");
}

TEST(ChildProcesses, AChildsLastWordsReachItsParentWithoutASocket) {
  EXPECT_EQ(end_of_child([]() -> int { throw std::bad_alloc(); }),
            "its process could not go on: it has too little memory");
  EXPECT_EQ(end_of_child([]() -> int { throw 7; }),
            "its process could not go on: an exception of unknown type");
  EXPECT_EQ(end_of_child([]() -> int { throw std::runtime_error("no room"); }),
            "its process could not go on: no room");
  EXPECT_THAT(
      end_of_child([]() -> int { throw std::system_error(EAGAIN, std::generic_category(), "a thread"); }),
      AllOf(StartsWith("its process could not go on: a thread: Resource temporarily unavailable"),
            HasSubstr("perhaps because no thread can be started: allow more threads (ulimit -u, pids.max)")));
  EXPECT_EQ(end_of_child([]() -> int { throw std::system_error(EMFILE, std::generic_category(), "a file"); }),
            "its process could not go on: a file: Too many open files");
  EXPECT_EQ(end_of_child([] { return 3; }), "its process ended with status 3");
}

}  // namespace
}  // namespace penstock
