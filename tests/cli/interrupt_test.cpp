// Ctrl-C in the midst of long work: the program ends by the signal, soon, and what was done is there.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/schedules/text_files.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongest{20};  // for whatever the machine is busy with

/// Until the program is in the midst of its work, which takes longer with a sanitizer's checks.
void let_it_work(std::chrono::milliseconds usual) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kSlowdown = 8;
#else
  constexpr int kSlowdown = 1;
#endif
  std::this_thread::sleep_for(kSlowdown * usual);
}

/// Asks every 10 ms until the condition holds; false after kLongest.
template <class Condition>
bool comes_true(const Condition& condition) {
  for (const auto begin = SteadyClock::now(); SteadyClock::now() - begin < kLongest;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// `penstock` with arguments, its output in files of a directory of its own.
class Interrupted : public testing::Test {
 protected:
  void TearDown() override {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }

  /// Does not wait. The child goes into the folder and becomes penstock there; its answer is in the files out
  /// and err.
  void start(const std::vector<std::string>& arguments) {
    process_ = fork();
    ASSERT_GE(process_, 0);
    if (process_ > 0) return;
    std::vector<char*> words;
    std::string program = PENSTOCK_EXECUTABLE;
    words.push_back(program.data());
    std::vector<std::string> copies = arguments;
    for (std::string& word : copies) words.push_back(word.data());
    words.push_back(nullptr);
    if (chdir(folder_.path().c_str()) != 0) _exit(1);
    dup2(open("out", O_WRONLY | O_CREAT, 0666), STDOUT_FILENO);
    dup2(open("err", O_WRONLY | O_CREAT, 0666), STDERR_FILENO);
    execv(program.c_str(), words.data());
    _exit(1);
  }

  /// Sends SIGINT; the signal that ends the process after that, 0 where it does not end so.
  int signal_after_interrupt() {
    const auto begin = SteadyClock::now();
    kill(process_, SIGINT);
    int status = 0;
    const bool ends = comes_true([&] { return waitpid(process_, &status, WNOHANG) == process_; });
    if (!ends) return 0;
    process_ = 0;
    const std::chrono::duration<double> took = SteadyClock::now() - begin;
    RecordProperty("seconds", std::to_string(took.count()));
    EXPECT_LT(took.count(), 5) << "although nothing else may keep it longer than a moment";
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  std::string text(const std::string& file) const { return test::text_of(folder_.path() / file); }
  /// Names in the folder, sorted.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  ScratchFolder folder_;
  pid_t process_ = 0;
};

// Minutes of searching for an order.
const std::vector<std::string> kLongSearch = {"--pp-size",
                                              "16",
                                              "--num-microbatches",
                                              "64",
                                              "--set",
                                              "schedule.passes=1000000",
                                              "--set",
                                              "model.stages.forward=3ms",
                                              "--set",
                                              "model.stages.backward_input=2ms",
                                              "--set",
                                              "model.stages.backward_weight=2ms"};

std::vector<std::string> extended(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(Interrupted, SimulateLeavesNothingHalfWritten) {
  start(extended({"simulate", "--schedule", "zb-v", "-o", "result.json"}, kLongSearch));
  let_it_work(std::chrono::milliseconds(300));
  EXPECT_EQ(signal_after_interrupt(), SIGINT);
  EXPECT_EQ(files(), (std::vector<std::string>{"err", "out"}));
}

TEST_F(Interrupted, SweepKeepsThePointsThatAreDoneAndDoesNotWaitForALongOne) {
  start(extended({"sweep", "--schedule", "gpipe,zb-v", "--resume", "points", "-o", "rows.csv", "--json"},
                 kLongSearch));
  const bool is_begun = comes_true([&] { return text("points").find("\"gpipe\"") != std::string::npos; });
  ASSERT_TRUE(is_begun) << text("err");
  EXPECT_EQ(signal_after_interrupt(), SIGINT);
  EXPECT_THAT(text("err"), testing::HasSubstr("interrupted: 1 of 2 points are done"));
  EXPECT_THAT(text("err"), testing::HasSubstr("the same command goes on from points"));
  EXPECT_THAT(text("out"), testing::HasSubstr("\"gpipe\""));
  const std::string rows = text("rows.csv");
  EXPECT_THAT(rows, testing::HasSubstr("gpipe"));
  EXPECT_THAT(rows, testing::Not(testing::HasSubstr("zb-v")));
  EXPECT_EQ(files(), (std::vector<std::string>{"err", "out", "points", "rows.csv"}));
}

/// Half a minute of tuning and more.
std::vector<std::string> long_tuning() {
  return {"tune",
          "--model",
          source_path("scenarios/library/models/llama-3.1-405b.json"),
          "--device",
          "h100-sxm",
          "--nodes",
          "256",
          "--sequence",
          "8192",
          "--global-batch-size",
          "2048"};
}

TEST_F(Interrupted, TuneReportsTheBestOfWhatIsSettled) {
  start({"tune", "--model", source_path("scenarios/library/models/llama-3.1-70b.json"), "--device",
         "h100-sxm", "--nodes", "16", "--sequence", "8192", "--global-batch-size", "2048", "--exhaustive",
         "-o", "best.json"});
  let_it_work(std::chrono::seconds(4));
  EXPECT_EQ(signal_after_interrupt(), SIGINT);
  EXPECT_THAT(text("best.json"), testing::HasSubstr("interrupted: "));
  EXPECT_THAT(text("out"), testing::HasSubstr("best: "));
}

TEST_F(Interrupted, TuneThatHasSettledNothingEndsByTheSignal) {
  start(extended(long_tuning(), {"--exhaustive", "-o", "best.json"}));
  let_it_work(std::chrono::milliseconds(300));
  EXPECT_EQ(signal_after_interrupt(), SIGINT);
  EXPECT_THAT(text("err"), testing::HasSubstr("interrupted before anything was settled"));
  EXPECT_EQ(files(), (std::vector<std::string>{"err", "out"}));
}

TEST_F(Interrupted, TuneDoesNotGoThroughAllOtherMachines) {
  start({"tune", "--model", source_path("scenarios/library/models/llama-3.1-70b.json"), "--device",
         "h100-sxm", "--nodes", "64", "--sequence", "8192", "--global-batch-size", "2048", "--schedule",
         "1f1b,interleaved", "--sensitivity", "-o", "best.json"});
  let_it_work(std::chrono::seconds(4));
  EXPECT_EQ(signal_after_interrupt(), SIGINT);
  EXPECT_THAT(text("best.json"), testing::HasSubstr("interrupted: "));
}

}  // namespace
}  // namespace penstock
