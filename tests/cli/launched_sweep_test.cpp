// A sweep that two processes share as torchrun starts them, one of which is killed, stopped or interrupted in
// the midst of a share that takes minutes: both end at once, and what was done is there.

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill() is POSIX's
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv() is POSIX's
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/outcome.hpp"
#include "cli/process_group.hpp"
#include "tests/schedules/text_files.hpp"
#include "tests/scratch_folder.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

constexpr int kRunFailed = static_cast<int>(ExitCode::run_failed);

class LaunchedSweep : public testing::Test {
 protected:
  ~LaunchedSweep() override {
    for (const pid_t process : processes_) {
      if (process <= 0) continue;
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
  }

  /// A quick point and one of minutes for each of two processes, once both quick ones are in the progress.
  void start_and_wait_for_quick_points() {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      std::filesystem::remove(entry.path());
    const std::string port = std::to_string(20'000 + (getpid() + starts_++) % 10'000);
    for (const std::size_t rank : {1, 0}) processes_[rank] = started(std::to_string(rank), port);
    const bool are_done = within(std::chrono::seconds(60), [this] {
      const std::string points = text("points");
      return points.find("\"point\":0") != std::string::npos &&
             points.find("\"point\":1") != std::string::npos;
    });
    ASSERT_TRUE(are_done) << text("err0") << text("err1");
  }

  void send(std::size_t rank, int signal) const { kill(processes_[rank], signal); }

  /// The status that the process ends with, far below the minutes that its share takes; -1 where it does not.
  int status_of(std::size_t rank, std::chrono::seconds longest = std::chrono::seconds(15)) {
    int status = 0;
    const bool ends =
        within(longest, [&] { return waitpid(processes_[rank], &status, WNOHANG) == processes_[rank]; });
    if (!ends) return -1;
    processes_[rank] = 0;
    return status;
  }

  void expect_exit(std::size_t rank, std::chrono::seconds longest = std::chrono::seconds(15)) {
    const int status = status_of(rank, longest);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kRunFailed) << "rank " << rank << ": " << status;
  }
  void expect_interrupt(std::size_t rank) {
    const int status = status_of(rank);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << "rank " << rank << ": " << status;
  }

  std::string text(const std::string& file) const { return test::text_of(folder_.path() / file); }

  /// Rows of both processes are printed, written and kept.
  void expect_both_quick_points() const {
    EXPECT_THAT(text("out0"), HasSubstr("\"microbatches\": 64"));
    EXPECT_THAT(text("out0"), HasSubstr("\"microbatches\": 65"));
    const std::string rows = text("rows.csv");
    EXPECT_EQ(std::ranges::count(rows, '\n'), 3) << rows;
    EXPECT_THAT(text("err0"), HasSubstr("interrupted: 2 of 4 points are done; the same command goes on from "
                                        "points"));
  }

 private:
  template <class Condition>
  static bool within(std::chrono::seconds longest, const Condition& condition) {
    const auto until = std::chrono::steady_clock::now() + longest;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  pid_t started(const std::string& rank, const std::string& port) const {
    const pid_t process = fork();
    if (process != 0) return process;
    if (chdir(folder_.path().c_str()) != 0) _exit(99);
    for (const auto& [name, value] : {std::pair<const char*, std::string>{"TORCHELASTIC_RUN_ID", "test"},
                                      {"MASTER_ADDR", "127.0.0.1"},
                                      {"MASTER_PORT", port},
                                      {"WORLD_SIZE", "2"},
                                      {"RANK", rank}})
      setenv(name, value.c_str(), 1);
    dup2(open(("out" + rank).c_str(), O_WRONLY | O_CREAT, 0666), STDOUT_FILENO);
    dup2(open(("err" + rank).c_str(), O_WRONLY | O_CREAT, 0666), STDERR_FILENO);
    // zb-v searches a million times for an order.
    execl(PENSTOCK_EXECUTABLE, PENSTOCK_EXECUTABLE, "sweep", "--schedule", "gpipe,zb-v", "--pp-size", "16",
          "--num-microbatches", "64,65", "--set", "schedule.passes=1000000", "--set",
          "model.stages.forward=3ms", "--set", "model.stages.backward_input=2ms", "--set",
          "model.stages.backward_weight=2ms", "--json", "--resume", "points", "-o", "rows.csv",
          static_cast<char*>(nullptr));
    _exit(99);
  }

  ScratchFolder folder_;
  std::array<pid_t, 2> processes_{};
  int starts_ = 0;
};

TEST_F(LaunchedSweep, EndsWithAProcessThatIsKilledAndKeepsWhatItHasSent) {
  start_and_wait_for_quick_points();
  send(1, SIGKILL);
  expect_exit(0);
  EXPECT_THAT(text("err0"), HasSubstr("process 1 of 2 has ended: 1 of its 2 points are missing"));
  expect_both_quick_points();
}

TEST_F(LaunchedSweep, EndsWithTheProcessThatGathers) {
  start_and_wait_for_quick_points();
  send(0, SIGKILL);
  expect_exit(1);
  EXPECT_THAT(text("err1"), HasSubstr("process 1 of 2 ends, since process 0 has"));
}

TEST_F(LaunchedSweep, EndsByAnInterruptOfTheProcessThatGathers) {
  start_and_wait_for_quick_points();
  send(0, SIGINT);
  expect_interrupt(0);
  expect_both_quick_points();
  expect_exit(1);
}

TEST_F(LaunchedSweep, EndsByAnInterruptOfAnotherProcess) {
  start_and_wait_for_quick_points();
  send(1, SIGINT);
  expect_exit(0);
  EXPECT_THAT(text("err0"), HasSubstr("process 1 of 2 was interrupted: 1 of its 2 points are missing"));
  expect_both_quick_points();
  expect_interrupt(1);
}

// Within a second, but where the machine is busy with something else: one of three times is enough.
TEST_F(LaunchedSweep, EndsByAnInterruptOfAll) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::chrono::seconds kMost{8};
#else
  constexpr std::chrono::seconds kMost{1};
#endif
  constexpr int kTries = 3;
  std::chrono::duration<double> took{};
  for (int i = 0; i < kTries; ++i) {
    start_and_wait_for_quick_points();
    const auto begin = std::chrono::steady_clock::now();
    send(0, SIGINT);
    send(1, SIGINT);
    for (const std::size_t rank : {0, 1}) expect_interrupt(rank);
    took = std::chrono::steady_clock::now() - begin;
    expect_both_quick_points();
    if (took <= kMost) break;
  }
  EXPECT_LE(took, kMost);
}

TEST_F(LaunchedSweep, WaitsForASuspendedProcessForAStatedTime) {
  start_and_wait_for_quick_points();
  send(1, SIGSTOP);
  expect_exit(0, kLongestSilence + std::chrono::seconds(30));
  EXPECT_THAT(text("err0"),
              HasSubstr("process 1 of 2 has been silent for 20 s: 1 of its 2 points are missing"));
  expect_both_quick_points();
}

TEST_F(LaunchedSweep, AShortPauseOfAProcessIsNoLoss) {
  start_and_wait_for_quick_points();
  send(1, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  send(1, SIGCONT);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_EQ(text("err0"), "");
  send(0, SIGINT);
  EXPECT_TRUE(WIFSIGNALED(status_of(0)));
  expect_both_quick_points();
}

}  // namespace
}  // namespace penstock
