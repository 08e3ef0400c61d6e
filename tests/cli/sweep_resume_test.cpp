// Tests the file of `sweep --resume`. Every added point must be read again, even if a crash has left an
// incomplete last line.

#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <ios>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "cli/sweep_progress_file.hpp"
#include "report/result/sweep_table.hpp"
#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

/// Returns a point that differs from others by its number of stages.
SweepPoint point_of(std::int32_t stages) {
  SweepPoint point{.row = {}, .notes = {"a note"}};
  point.row.schedule = "1f1b";
  point.row.stages = stages;
  point.row.micro_batch_size = 1;
  point.row.global_batch_size = 1;
  point.row.makespan_ns = 17 * stages;
  point.row.throughput.samples_per_update = 1;
  return point;
}

/// Returns the head of the tests' sweep with this number of points.
SweepHead sweep_of(std::size_t points) { return {.points = points, .digest = "5eed"}; }

class ProgressFile : public testing::Test {
 protected:
  ~ProgressFile() override { std::filesystem::remove(name_); }

  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(name_).rdbuf();
    return all.str();
  }
  void write(const std::string& text, std::ios::openmode mode = std::ios::trunc) const {
    std::ofstream(name_, std::ios::out | mode) << text;
  }
  /// Returns the error with which the file is refused as the progress of a sweep with this many points.
  std::string refusal(std::size_t points) const {
    const auto opened = SweepProgressFile::open(name_, sweep_of(points));
    return opened ? "no error" : opened.error();
  }

  const std::string name_ = testing::TempDir() + "progress_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
};

TEST_F(ProgressFile, IsMadeAndReadAgain) {
  {
    const auto file = SweepProgressFile::open(name_, sweep_of(9));
    ASSERT_TRUE(file) << file.error();
    EXPECT_TRUE((*file)->known().empty());
    (*file)->add(4, point_of(2));
    (*file)->add(1, point_of(3));
    EXPECT_TRUE((*file)->state());
  }
  const auto again = SweepProgressFile::open(name_, sweep_of(9));
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ((*again)->known(), (std::map<std::size_t, SweepPoint>{{1, point_of(3)}, {4, point_of(2)}}));
}

TEST_F(ProgressFile, EveryPointIsThereBeforeTheNext) {
  const auto file = SweepProgressFile::open(name_, sweep_of(9));
  (*file)->add(0, point_of(1));
  EXPECT_EQ(text(),
            "{\"schema_version\":3,\"kind\":\"sweep-progress\",\"points\":9,\"digest\":\"5eed\",\"shard\":1,"
            "\"shards\":1,\"title\":\"\",\"notes\":[],\"usable_bytes\":null,\"chunks_note\":\"\"}\n" +
                sweep_point_json(0, point_of(1)));
}

// If the file is cut anywhere, the points of its complete lines remain, and new points can be added.
TEST_F(ProgressFile, ALineThatACrashLeftUnfinishedIsDropped) {
  (*SweepProgressFile::open(name_, sweep_of(9)))->add(0, point_of(1));
  const std::string one = text();
  const std::string line = sweep_point_json(1, point_of(2));
  for (const std::size_t length : {std::size_t{1}, line.size() / 2, line.size() - 1}) {
    write(one + line.substr(0, length));
    const auto file = SweepProgressFile::open(name_, sweep_of(9));
    ASSERT_TRUE(file) << file.error();
    EXPECT_EQ((*file)->known().size(), 1U);
    (*file)->add(1, point_of(2));
    EXPECT_EQ(text(), one + line);
  }
}

TEST_F(ProgressFile, WhatHasNoEndIsNotRead) {
  for (const char* const endless : {"/dev/zero", "/dev/full"}) {
    const auto refused = SweepProgressFile::open(endless, sweep_of(9));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), std::string(endless) + ": cannot be read: expected a file");
  }
}

TEST_F(ProgressFile, ALineWithoutEndIsNotReadToItsEnd) {
  const std::string head = sweep_progress_head(sweep_of(9));
  constexpr std::uintmax_t kHuge = 10'000'000'000;  // zero bytes that use no disk space
  const auto refusal_of = [&](const std::string& begin) {
    write(begin);
    std::filesystem::resize_file(name_, kHuge);
    // CPU time, which is not longer on a busy machine
    const std::clock_t before = std::clock();
    const std::string refused = refusal(9);
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC);
    EXPECT_EQ(std::filesystem::file_size(name_), kHuge) << "it is left alone";
    return refused;
  };
  const std::string fault = ": expected a line of at most 1 MiB; name another file";
  EXPECT_EQ(refusal_of(""), name_ + ":1" + fault);
  EXPECT_EQ(refusal_of(head), name_ + ":2" + fault);
  EXPECT_EQ(refusal_of(head + sweep_point_json(0, point_of(1))), name_ + ":3" + fault);
}

TEST_F(ProgressFile, ManyMoreLinesThanPointsAreNotRead) {
  write(sweep_progress_head(sweep_of(2)));
  for (int i = 0; i < 4; ++i) write(sweep_point_json(0, point_of(1)), std::ios::app);
  EXPECT_EQ(refusal(2), "no error");
  write(sweep_point_json(0, point_of(1)), std::ios::app);
  EXPECT_EQ(refusal(2), name_ + ":6: expected at most 5 lines for 2 points; name another file");
}

TEST_F(ProgressFile, WhatNobodyWouldReadIsNotWritten) {
  SweepPoint long_one = point_of(1);
  long_one.row.reason = std::string(kLongestProgressLine, 'x');
  SweepPoint next = point_of(2);
  next.row.reason = std::string(kLongestProgressLine - 4'096, 'x');
  {
    const auto file = SweepProgressFile::open(name_, sweep_of(9));
    (*file)->add(0, long_one);
    (*file)->add(1, next);
  }
  EXPECT_EQ((*SweepProgressFile::open(name_, sweep_of(9)))->known(),
            (std::map<std::size_t, SweepPoint>{{1, next}}));
}

TEST_F(ProgressFile, TwoSweepsDoNotAddToOneFile) {
  {
    const auto first = SweepProgressFile::open(name_, sweep_of(9));
    ASSERT_TRUE(first) << first.error();
    EXPECT_THAT(refusal(9),
                testing::HasSubstr("another sweep adds to it: wait for its end, or name another"));
    (*first)->add(0, point_of(1));
  }
  EXPECT_EQ((*SweepProgressFile::open(name_, sweep_of(9)))->known().size(), 1U);
}

// The file may be new, so that several sweeps try to create it.
TEST_F(ProgressFile, OfManyThatOpenItAtOneInstantOneHasIt) {
  constexpr int kRounds = 200;
  constexpr std::size_t kSweeps = 4;
  for (int round = 0; round < kRounds; ++round) {
    std::filesystem::remove(name_);
    std::vector<tl::expected<std::unique_ptr<SweepProgressFile>, std::string>> opened(kSweeps);
    std::vector<std::thread> threads;
    threads.reserve(kSweeps);
    std::barrier together(kSweeps);
    for (std::size_t i = 0; i < kSweeps; ++i) {
      threads.emplace_back([&, i] {
        together.arrive_and_wait();
        opened[i] = SweepProgressFile::open(name_, sweep_of(9));
      });
    }
    for (std::thread& thread : threads) thread.join();
    int winners = 0;
    for (const auto& one : opened) {
      winners += one ? 1 : 0;
      if (one) {
        (*one)->add(0, point_of(1));
      } else {
        EXPECT_THAT(one.error(), testing::StartsWith(name_ + ": another sweep adds to it"));
      }
    }
    ASSERT_EQ(winners, 1) << "in round " << round;
    opened.clear();
    ASSERT_EQ((*SweepProgressFile::open(name_, sweep_of(9)))->known().size(), 1U);
  }
}

TEST_F(ProgressFile, AReadOnlyFileIsLeftAlone) {
  write(sweep_progress_head(sweep_of(9)));
  std::filesystem::permissions(name_, std::filesystem::perms::owner_read);
  EXPECT_EQ(refusal(9), name_ + ": cannot be written: it is read-only; make it writable or name another");
}

TEST_F(ProgressFile, AKilledSweepHoldsItNoLonger) {
  const pid_t sweep = fork();
  if (sweep == 0) {
    const auto held = SweepProgressFile::open(name_, sweep_of(9));
    (*held)->add(0, point_of(1));
    kill(getpid(), SIGKILL);
  }
  waitpid(sweep, nullptr, 0);
  const auto again = SweepProgressFile::open(name_, sweep_of(9));
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ((*again)->known().size(), 1U);
}

TEST_F(ProgressFile, AFirstLineThatACrashLeftUnfinishedIsWrittenAgain) {
  for (const std::size_t length : {0U, 1U, 20U}) {
    write(sweep_progress_head(sweep_of(9)).substr(0, length));
    const auto file = SweepProgressFile::open(name_, sweep_of(9));
    ASSERT_TRUE(file) << file.error();
    EXPECT_EQ(text(), sweep_progress_head(sweep_of(9)));
  }
}

TEST_F(ProgressFile, WhatIsNoneIsRefusedAndLeftAlone) {
  write("my thesis\n");
  EXPECT_THAT(refusal(9), testing::HasSubstr("expected a part of a sweep"));
  EXPECT_EQ(text(), "my thesis\n");
  write("my thesis, without an end");
  EXPECT_THAT(refusal(9), testing::HasSubstr("expected a part of a sweep"));
  (void)SweepProgressFile::open(name_, sweep_of(9));
  write(sweep_progress_head(sweep_of(8)));
  EXPECT_THAT(refusal(9), testing::HasSubstr("the file is of a sweep of 8 points, this one has 9"));
  write("{\"point\":0}\n", std::ios::app);
  EXPECT_THAT(refusal(8), testing::HasSubstr(".jsonl:2: expected a point of a sweep"));
}

TEST_F(ProgressFile, AWordInTheWrongPlaceIsRefused) {
  for (const char* const head :
       {R"({"schema_version":1,"kind":5,"points":9})",
        R"({"schema_version":1,"kind":["sweep-progress"],"points":9})", R"(["sweep-progress"])",
        R"("sweep-progress")", R"({"schema_version":1e999,"kind":"sweep-progress"})"}) {
    write(std::string(head) + "\n");
    EXPECT_THAT(refusal(9), testing::HasSubstr("expected a part of a sweep")) << head;
  }
  write(R"({"schema_version":2,"kind":"sweep-progress","points":9,"digest":"5eed"})"
        "\n");
  EXPECT_THAT(refusal(9), testing::HasSubstr("expected schema_version 3, got 2: another penstock wrote it"));
  for (const char* const numbers :
       {R"("points":"all","shard":1,"shards":1)", R"("shard":1,"shards":1)",
        R"("points":9,"shard":0,"shards":1)", R"("points":9,"shard":2,"shards":1)",
        R"("points":9,"shard":1,"shards":9e9)", R"("points":18446744073709551615,"shard":1,"shards":1)"}) {
    write(R"({"schema_version":3,"kind":"sweep-progress","digest":"5eed",)" + std::string(numbers) + "}\n");
    EXPECT_THAT(refusal(9), testing::HasSubstr("points, shard, shards: expected a number of points"))
        << numbers;
  }
}

// An equal number of points does not show that the sweeps are the same.
TEST_F(ProgressFile, AnotherSweepIsRefusedAndLeftAlone) {
  for (const char* const digest : {R"(,"digest":"feed")", R"(,"digest":5)", R"(,"digest":["5eed"])", ""}) {
    const std::string other =
        R"({"schema_version":3,"kind":"sweep-progress","points":9,"shard":1,"shards":1)" +
        std::string(digest) + "}\n";
    write(other);
    EXPECT_EQ(refusal(9),
              name_ +
                  ": the file is of another sweep: the scenario, a file that it names, the flags or "
                  "penstock have changed since it began; name another file, or remove it");
    EXPECT_EQ(text(), other);
  }
}

TEST_F(ProgressFile, AnotherShardIsRefused) {
  SweepHead third = sweep_of(9);
  third.shard = {.index = 2, .count = 4};
  write(sweep_progress_head(third) + sweep_point_json(2, point_of(1)));
  EXPECT_EQ(refusal(9), name_ + ": the file is of shard 3/4, this one is 1/1; name another file");
  EXPECT_EQ((*SweepProgressFile::open(name_, third))->known().size(), 1U);
  write(sweep_point_json(3, point_of(1)), std::ios::app);
  EXPECT_EQ(SweepProgressFile::open(name_, third).error(),
            name_ + ":3: point 3 is none of shard 3/4 of 9 points");
}

TEST_F(ProgressFile, ANumberThatItsFieldCannotHoldIsRefused) {
  const std::string line = sweep_point_json(1, point_of(2));
  const auto with = [&](const std::string& was, const std::string& becomes) {
    std::string changed = line;
    changed.replace(changed.find(was), was.size(), becomes);
    write(sweep_progress_head(sweep_of(9)) + changed);
    return refusal(9);
  };
  EXPECT_EQ(with("\"point\":1", "\"point\":1"), "no error");
  EXPECT_THAT(with("\"point\":1", "\"point\":1.5"),
              testing::HasSubstr("point: expected an integer from 0 to"));
  EXPECT_THAT(with("\"point\":1", "\"point\":-1"), testing::HasSubstr("got -1"));
  EXPECT_THAT(with("\"stages\":2", "\"stages\":0"),
              testing::HasSubstr(":2: expected a point of a sweep: stages: expected an integer from 1 to"));
  EXPECT_THAT(with("\"idle_over_total\":0.0", "\"idle_over_total\":1.5"),
              testing::HasSubstr("idle_over_total: expected a part in [0, 1], got 1.5"));
  EXPECT_THAT(with("\"stages\":2", "\"stages\":4294967298"),
              testing::HasSubstr("stages: expected an integer"));
  EXPECT_THAT(with("\"makespan_ns\":34", "\"makespan_ns\":9e121"),
              testing::HasSubstr("makespan_ns: expected"));
  EXPECT_THAT(with("\"makespan_ns\":34", "\"makespan_ns\":18446744073709551615"),
              testing::HasSubstr("got 18446744073709551615"));
}

// `sweep --resume` accepts only rows of the same sweep. A change of anything that affects a point makes
// another sweep. A change of anything else does not.

using testing::HasSubstr;
using testing::Not;

constexpr const char* kScenario =
    "model: {stages: {forward: 2 ms, backward: 4 ms, kept: 1 GiB}}\n"
    "cluster: {preset: uniform, memory: 100 GiB}\n"
    "schedule: {name: gpipe, stages: 4, microbatches: 8}\n";

class SweepResume : public testing::Test {
 protected:
  /// Returns the outcome of a sweep that resumes from the file `points`.
  std::string outcome(const std::string& arguments) const {
    return outcome_of("penstock sweep " + arguments + " --resume points", folder_.path());
  }
  void expect_refusal(const std::string& arguments) const {
    const std::string printed = outcome(arguments);
    EXPECT_THAT(printed, HasSubstr("! penstock: points: the file is of another sweep")) << arguments;
    EXPECT_THAT(printed, HasSubstr("[exit 2]")) << arguments;
  }

  ScratchFolder folder_;
};

const std::string kSweep = "mem.yaml --schedule 1f1b,gpipe,zb-h1 --num-microbatches 2,4,8 --hold micro-batch";

TEST_F(SweepResume, GoesOnFromTheSameSweep) {
  folder_.write("mem.yaml", kScenario);
  const std::string first = outcome(kSweep);
  EXPECT_THAT(first, HasSubstr("8.00 GiB"));
  EXPECT_EQ(outcome(kSweep), first);
  folder_.write("mem.yaml", std::string("# a comment decides nothing\n") + kScenario);
  EXPECT_EQ(outcome(kSweep), first);
}

// With less memory, one of the nine rows does not fit.
TEST_F(SweepResume, RefusesRowsOfAScenarioThatHasChanged) {
  folder_.write("mem.yaml", kScenario);
  outcome(kSweep);
  expect_refusal(kSweep + " --set cluster.memory=6GiB");
  std::string smaller = kScenario;
  smaller.replace(smaller.find("100 GiB"), 7, "6 GiB");
  folder_.write("mem.yaml", smaller);
  expect_refusal(kSweep);
  std::filesystem::remove(folder_.path() / "points");
  EXPECT_THAT(outcome(kSweep), HasSubstr("out of memory"));
}

TEST_F(SweepResume, RefusesRowsOfOtherFlags) {
  folder_.write("mem.yaml", kScenario);
  outcome(kSweep);
  for (const char* const flag : {"--iterations 2", "--data-parallel 2", "--channel pair", "--blocking",
                                 "--engine event", "--pp-size 2", "--micro-batch-size 2"})
    expect_refusal(kSweep + " " + flag);
  expect_refusal("mem.yaml --schedule 1f1b,zb-h1,gpipe --num-microbatches 2,4,8 --hold micro-batch");
  expect_refusal("mem.yaml --schedule 1f1b,gpipe,zb-h1 --num-microbatches 2,4,9 --hold micro-batch");
  EXPECT_THAT(outcome(kSweep), Not(HasSubstr("[exit")));
}

// The text of the scenario does not change.
TEST_F(SweepResume, RefusesRowsOfAFileThatTheScenarioNamesAndThatHasChanged) {
  folder_.write("named.yaml", "model: model.yaml\nschedule: {name: gpipe, stages: 2, microbatches: 4}\n");
  folder_.write("model.yaml", "stages: {forward: {file: forward.csv, unit: ms}, backward: 4 ms}\n");
  folder_.write("forward.csv", "1,2,3,4\n1,2,3,4\n");
  const std::string sweep = "named.yaml --schedule gpipe,1f1b";
  const std::string first = outcome(sweep);
  EXPECT_THAT(first, Not(HasSubstr("[exit"))) << first;
  EXPECT_EQ(outcome(sweep), first);
  folder_.write("forward.csv", "1,2,3,4\n1,2,3,5\n");
  expect_refusal(sweep);
  folder_.write("forward.csv", "1,2,3,4\n1,2,3,4\n");
  EXPECT_EQ(outcome(sweep), first);
  folder_.write("model.yaml", "stages: {forward: {file: forward.csv, unit: ms}, backward: 5 ms}\n");
  expect_refusal(sweep);
}

TEST_F(SweepResume, RefusesAScenarioThatCannotBeReadTwice) {
  folder_.write("mem.yaml", kScenario);
  EXPECT_THAT(
      outcome_of("cat mem.yaml | penstock sweep /dev/stdin --resume points", folder_.path()),
      HasSubstr("/dev/stdin: --resume and --shard read it twice: expected a file, got a pipe or a device; "
                "write it into a file"));
}

}  // namespace
}  // namespace penstock
