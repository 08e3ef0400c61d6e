// Tests that Ctrl-C, a closed terminal or a batch system can stop a long command. The program and its
// children must end soon, by the signal, and the finished work must be saved.

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill() is POSIX's
#include <string.h>  // NOLINT(modernize-deprecated-headers): strsignal() is POSIX's
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): clocks of other processes are POSIX's
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSlowdown = 8;
#else
constexpr int kSlowdown = 1;
#endif
constexpr std::chrono::seconds kLongest{300 * kSlowdown};  // the longest wait, even on a busy machine
constexpr std::chrono::seconds kMostToTheEnd{kSlowdown};   // the most time from the signal to the end

/// Returns the CPU time of a process, or 0 if the process does not exist.
std::chrono::nanoseconds processor_time_of(pid_t process) {
  clockid_t clock{};
  timespec spent{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &spent) != 0) return {};
  return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

/// Returns the CPU time of all child processes that this process has waited for.
std::chrono::nanoseconds processor_time_of_reaped() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/// Checks the condition every 10 ms. Returns false if it does not hold within kLongest.
template <class Condition>
bool comes_true(const Condition& condition) {
  for (const auto begin = SteadyClock::now(); SteadyClock::now() - begin < kLongest;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

Words extended(Words arguments, const Words& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// Runs `penstock` in its own folder. Its output goes to the files out and err there.
class Interrupted : public testing::Test {
 protected:
  // If the program leaves children behind, the test process becomes their parent.
  static void SetUpTestSuite() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  static void TearDownTestSuite() { prctl(PR_SET_CHILD_SUBREAPER, 0); }

  void TearDown() override { end(process_); }

  /// Starts the program, waits until `is_at_work` holds, and sends the signal. The program and its children
  /// must end by it within a second. One success in three attempts is enough.
  void expect_end_by(int signal, const Words& arguments, const std::function<bool()>& is_at_work) {
    constexpr int kTries = 3;
    SteadyClock::duration took{};
    for (int i = 0; i < kTries; ++i) {
      start(arguments);
      ASSERT_TRUE(comes_true(is_at_work)) << text("err");
      took = time_to_end_by(signal);
      if (took <= kMostToTheEnd) break;
    }
    EXPECT_LE(std::chrono::duration<double>(took).count(), kMostToTheEnd.count()) << strsignal(signal);
  }

  /// Returns a condition for expect_end_by(): the program has used this much CPU time. A sanitizer increases
  /// the time. The condition does not depend on how busy the machine is.
  std::function<bool()> has_worked_for(std::chrono::milliseconds time) const {
    return [this, time] { return processor_time_of(process_) >= kSlowdown * time; };
  }

  std::string text(const std::string& file) const { return test::text_of(folder_.path() / file); }
  /// Returns the sorted names of the files in the folder.
  Words files() const {
    Words names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  int ignored_ = 0;  ///< a signal that the program ignores from its start
  void ask_to_end(int signal) const { kill(process_, signal); }

  /// Returns the children of the program that it has not waited for yet.
  std::vector<pid_t> children() const {
    std::vector<pid_t> found;
    std::error_code ended;
    for (const auto& thread : fs::directory_iterator(proc() / "task", ended)) {
      std::istringstream numbers(test::text_of(thread.path() / "children"));
      for (pid_t child = 0; numbers >> child;) found.push_back(child);
    }
    return found;
  }
  fs::path proc() const { return fs::path("/proc") / std::to_string(process_); }

 private:
  static void end(pid_t process) {
    if (process <= 0) return;
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }

  /// Ends an earlier program, empties the folder and starts the program there. Does not wait for its end.
  void start(const Words& arguments) {
    end(std::exchange(process_, 0));
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry.path());
    process_ = fork();
    ASSERT_GE(process_, 0);
    if (process_ > 0) return;
    if (ignored_ != 0) ::signal(ignored_, SIG_IGN);
    std::vector<char*> words;
    std::string program = PENSTOCK_EXECUTABLE;
    words.push_back(program.data());
    Words copies = arguments;
    for (std::string& word : copies) words.push_back(word.data());
    words.push_back(nullptr);
    if (chdir(folder_.path().c_str()) != 0) _exit(1);
    dup2(open("out", O_WRONLY | O_CREAT, 0666), STDOUT_FILENO);
    dup2(open("err", O_WRONLY | O_CREAT, 0666), STDERR_FILENO);
    execv(program.c_str(), words.data());
    _exit(1);
  }

  /// Returns the time from the signal to the end of the program and its children. It is the smaller of the
  /// wall time and the CPU time. On a busy machine the wall time is too long. With many processors the CPU
  /// time is too long.
  SteadyClock::duration time_to_end_by(int signal) {
    std::vector<pid_t> all = children();
    all.push_back(process_);
    EXPECT_EQ(waitpid(process_, nullptr, WNOHANG), 0) << "it has ended before the signal";
    std::chrono::nanoseconds before = processor_time_of_reaped();
    for (const pid_t one : all) before += processor_time_of(one);
    const auto begin = SteadyClock::now();
    kill(process_, signal);
    for (const pid_t one : all) {
      int status = 0;
      const bool ends = comes_true([&] { return has_ended(one, status); });
      EXPECT_TRUE(ends) << (one == process_ ? "the program" : "a child of it") << " is still there";
      if (!ends) end(one);
      if (one == process_) {
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << "ended with status " << status;
      }
    }
    process_ = 0;
    return std::min<SteadyClock::duration>(SteadyClock::now() - begin, processor_time_of_reaped() - before);
  }

  /// Returns true if the process has ended. Waits for it if this test is its parent. Before the program ends,
  /// a child belongs to the program and not to this test.
  static bool has_ended(pid_t process, int& status) {
    return waitpid(process, &status, WNOHANG) == process || kill(process, 0) != 0;
  }

  ScratchFolder folder_;
  pid_t process_ = 0;
};

// Flags with which the search for an order takes minutes.
const Words kLongSearch = {"--pp-size",
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

TEST_F(Interrupted, SweepKeepsThePointsThatAreDoneAndDoesNotWaitForALongOne) {
  const Words sweep = extended(
      {"sweep", "--schedule", "gpipe,zb-v", "--resume", "points", "-o", "rows.csv", "--json"}, kLongSearch);
  const auto is_begun = [this] { return text("points").find("\"gpipe\"") != std::string::npos; };
  for (const int signal : {SIGINT, SIGTERM}) {
    expect_end_by(signal, sweep, is_begun);
    EXPECT_THAT(text("err"), testing::HasSubstr("interrupted: 1 of 2 points are done"));
    EXPECT_THAT(text("err"), testing::HasSubstr("the same command goes on from points"));
    EXPECT_THAT(text("out"), testing::HasSubstr("\"gpipe\""));
    const std::string rows = text("rows.csv");
    EXPECT_THAT(rows, testing::HasSubstr("gpipe"));
    EXPECT_THAT(rows, testing::Not(testing::HasSubstr("zb-v")));
    EXPECT_EQ(files(), (Words{"err", "out", "points", "rows.csv"}));
  }
  // After SIGHUP nobody reads the answer, so none is written.
  expect_end_by(SIGHUP, sweep, is_begun);
  EXPECT_EQ(files(), (Words{"err", "out", "points"}));
  EXPECT_TRUE(is_begun());
}

/// Returns a tuning command that takes more than half a minute.
Words long_tuning() {
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
  expect_end_by(SIGINT,
                {"tune", "--model", source_path("scenarios/library/models/llama-3.1-70b.json"), "--device",
                 "h100-sxm", "--nodes", "16", "--sequence", "8192", "--global-batch-size", "2048",
                 "--exhaustive", "-o", "best.json"},
                has_worked_for(std::chrono::seconds(4)));
  EXPECT_THAT(text("best.json"), testing::HasSubstr("interrupted: "));
  EXPECT_THAT(text("out"), testing::HasSubstr("best: "));
}

TEST_F(Interrupted, TuneThatHasSettledNothingEndsByTheSignal) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    expect_end_by(signal, extended(long_tuning(), {"--exhaustive", "-o", "best.json"}),
                  has_worked_for(std::chrono::milliseconds(300)));
    if (signal != SIGHUP) {
      EXPECT_THAT(text("err"), testing::HasSubstr("interrupted before any configuration was timed"));
    }
    EXPECT_EQ(files(), (Words{"err", "out"}));
  }
}

TEST_F(Interrupted, TuneDoesNotGoThroughAllOtherMachines) {
  expect_end_by(SIGINT,
                {"tune", "--model", source_path("scenarios/library/models/llama-3.1-70b.json"), "--device",
                 "h100-sxm", "--nodes", "64", "--sequence", "8192", "--global-batch-size", "2048",
                 "--schedule", "1f1b,interleaved", "--sensitivity", "-o", "best.json"},
                has_worked_for(std::chrono::seconds(4)));
  EXPECT_THAT(text("best.json"), testing::HasSubstr("interrupted: "));
}

// A shell starts background commands of a script with SIGINT ignored, because Ctrl-C is not meant for them.
TEST_F(Interrupted, ASignalThatIsIgnoredStaysSo) {
  const Words sweep =
      extended({"sweep", "--schedule", "gpipe,zb-v", "--resume", "points", "--json"}, kLongSearch);
  ignored_ = SIGINT;
  const auto is_asked = [this] {
    if (text("points").find("\"gpipe\"") == std::string::npos) return false;
    ask_to_end(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return true;
  };
  expect_end_by(SIGTERM, sweep, is_asked);
  EXPECT_THAT(text("err"), testing::HasSubstr("interrupted: 1 of 2 points are done"));
}

// --- commands that save no partial work --------------------------------------------------------------------

/// A command that would take seconds or longer.
struct LongWork {
  std::string name;  // name of the test
  Words arguments;   // "IN/" is replaced by a folder of inputs
  std::size_t processes = 0;
  void (*prepare)(const fs::path& inputs) = nullptr;
};

void PrintTo(const LongWork& work, std::ostream* out) { *out << work.name; }

/// Writes two results of 29 MB. One has the kind "measured".
void write_long_results(const fs::path& inputs) {
  outcome_of(
      "penstock simulate --schedule 1f1b --pp-size 16 --num-microbatches 1500 --timeline --quiet -o "
      "predicted.json; sed 's/\"predicted\"/\"measured\"/' predicted.json > measured.json",
      inputs);
}

/// Writes the rows of a library file many times.
void write_long_measurements(const fs::path& inputs) {
  const std::string rows = test::text_of(source_path("scenarios/library/runs/vtrain_iterations.csv"));
  const std::string without_head = rows.substr(rows.find('\n') + 1);
  std::ofstream file(inputs / "iterations.csv");
  file << rows;
  for (int i = 0; i < 200; ++i) file << without_head;
}

std::vector<LongWork> long_works() {
  const Words small = {"--schedule", "1f1b", "--pp-size", "4", "--num-microbatches", "8"};
  const Words large = {"--schedule", "1f1b", "--pp-size", "64", "--num-microbatches", "20000"};
  const Words held = extended(small, {"--time-scale", "10000"});
  const Words processes = extended(held, {"--backend", "cpu-process"});
  const std::string library = source_path("scenarios/library/");
  return {{"simulate", extended(extended({"simulate", "--schedule", "zb-v"}, kLongSearch), {"-o", "a.json"})},
          {"show", extended(extended({"show"}, large), {"-o", "a.html"})},
          {"check", extended({"check"}, large)},
          {"convert", extended(extended({"convert"}, large), {"-o", "a.psched"})},
          {"plan",
           {"plan", library + "gnmt-cluster-a.yaml", "--objective", "sum", "--noise", "5%,10%,20%",
            "--trials", "100000", "-o", "a.json"}},
          {"risk",
           {"risk", "--schedule", "1f1b", "--pp-size", "16", "--num-microbatches", "64", "--jitter", "0.1",
            "--trials", "1000000", "-o", "a.json"}},
          {"reproduce", {"reproduce", "-o", "a.json"}},
          {"runs", {"runs", library + "runs/training_steps.csv", "-o", "a.json"}},
          {"run", extended(extended({"run"}, held), {"-o", "a.json"})},
          {"run_processes", extended(extended({"run"}, processes), {"-o", "a.json"}), 4},
          {"calibrate", extended({"calibrate"}, held)},
          {"calibrate_processes", extended({"calibrate"}, processes), 4},
          {"compare",
           {"compare", "IN/predicted.json", "IN/measured.json", "-o", "a.json"},
           0,
           write_long_results},
          {"diff", {"diff", "IN/predicted.json", "IN/predicted.json"}, 0, write_long_results},
          {"fit", {"fit", "IN/iterations.csv", "-o", "a.json"}, 0, write_long_measurements}};
}

class InterruptedWork : public Interrupted, public testing::WithParamInterface<LongWork> {
 protected:
  Words arguments() const {
    Words words = GetParam().arguments;
    for (std::string& word : words) {
      if (word.starts_with("IN/")) word.replace(0, 2, inputs_.path().string());
    }
    return words;
  }

  /// Returns true if all processes exist and the work has begun: there is a child or a second thread, or the
  /// main thread has used some CPU time.
  bool is_at_work() const {
    if (children().size() < GetParam().processes) return false;
    std::error_code ended;
    return !children().empty() || std::distance(fs::directory_iterator(proc() / "task", ended), {}) > 1 ||
           ticks() >= kSlowdown * 5;
  }

  ScratchFolder inputs_;

 private:
  /// Returns the user CPU time of the program in clock ticks, which are hundredths of a second.
  long ticks() const {
    const std::string stat = test::text_of(proc() / "stat");
    std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
    constexpr int kUserTime = 12;  // position after the name, from proc(5)
    std::string field;
    for (int i = 0; i < kUserTime && fields >> field; ++i) continue;
    return field.empty() ? 0 : std::strtol(field.c_str(), nullptr, 10);
  }
};

TEST_P(InterruptedWork, EndsByTheSignalAndLeavesNothing) {
  if (GetParam().prepare != nullptr) GetParam().prepare(inputs_.path());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    expect_end_by(signal, arguments(), [this] { return is_at_work(); });
    EXPECT_EQ(files(), (Words{"err", "out"}));
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, InterruptedWork, testing::ValuesIn(long_works()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace penstock
