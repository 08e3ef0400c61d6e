// Whom the coordinator names when it has waited for all, and nobody is missing any more.

#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "backend/executor/progress.hpp"
#include "backend/process/attendance.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/process_execution.hpp"
#include "tests/backend/process_fixture.hpp"

namespace penstock {
namespace {

/// Two ranks that have joined, in a wait that patience is over for.
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

}  // namespace
}  // namespace penstock
