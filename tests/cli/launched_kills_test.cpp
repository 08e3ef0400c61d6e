// Starts ranks as torchrun does, one process for each rank on the loopback interface. A signal goes to one
// rank at a random moment: while the ranks connect, run, or collect their times. The other ranks must end in
// time, with a status of the table. Their message must name the rank, the action and a peer. No file may be
// left behind.

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill() is POSIX's
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/outcome.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kJobDeadline{1};        // the value of --deadline
constexpr milliseconds kJobSlack{2'000};  // extra time for a busy machine

/// Describes one job, its signal and all start times.
struct JobPlan {
  std::int32_t ranks = 2;
  bool has_secret = false;  ///< The secret is in the environment. Otherwise rank 0 writes it to a file.
  std::vector<microseconds> start;  ///< start time of each rank, from the beginning of the job
  std::int32_t victim = 0;
  int signal = 0;  ///< 0 means no signal
  microseconds moment{};
};

/// A running job. All its files are in its folder. The temporary files are in a subfolder.
class LaunchedJob {
 public:
  explicit LaunchedJob(JobPlan plan) : plan_(std::move(plan)), processes_(size()), status_(size()) {
    for (const char* folder : {"work", "tmp", "out"}) std::filesystem::create_directory(path(folder));
  }
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;
  ~LaunchedJob() {
    for (std::size_t rank = 0; rank < size(); ++rank) {
      if (processes_[rank] == 0 || status_[rank]) continue;
      kill(processes_[rank], SIGKILL);
      waitpid(processes_[rank], nullptr, 0);
    }
  }

  /// Starts the ranks, sends the signal and waits for all other ranks. After that it continues a stopped
  /// rank.
  void run() {
    const auto begin = steady_clock::now();
    std::multimap<microseconds, std::int32_t> starts;
    for (std::int32_t rank = 0; rank < plan_.ranks; ++rank) starts.emplace(start_of(rank), rank);
    auto last = begin;
    bool is_sent = plan_.signal == 0;
    const auto send_at = begin + start_of(plan_.victim) + plan_.moment;
    const auto send = [&] {
      std::this_thread::sleep_until(send_at);
      kill(processes_[victim()], plan_.signal);
      is_sent = true;
      last = steady_clock::now();
    };
    for (const auto& [moment, rank] : starts) {
      if (!is_sent && send_at < begin + moment) send();
      std::this_thread::sleep_until(begin + moment);
      start(rank);
      last = steady_clock::now();
    }
    if (!is_sent) send();
    while (!have_ended() && steady_clock::now() - last < kJobDeadline + kJobSlack)
      std::this_thread::sleep_for(milliseconds(1));
    took_ = duration_cast<milliseconds>(steady_clock::now() - last);
    if (plan_.signal == SIGSTOP) go_on();
  }

  /// Returns the rank's status from waitpid(). Empty if the rank has not ended.
  const std::optional<int>& status(std::int32_t rank) const {
    return status_[static_cast<std::size_t>(rank)];
  }
  bool has_failed(std::int32_t rank) const {
    return status(rank) && WIFEXITED(*status(rank)) &&
           WEXITSTATUS(*status(rank)) == static_cast<int>(ExitCode::run_failed);
  }
  /// Returns the text that the rank wrote to stderr.
  std::string words(std::int32_t rank) const {
    return test::text_of(path("out") / ("err" + std::to_string(rank)));
  }
  std::string table() const { return test::text_of(path("out") / "out0"); }
  /// Returns the time from the signal to the end of all ranks except a stopped one. If there is a later start
  /// or no signal, the time begins at the last start.
  milliseconds took() const { return took_; }
  const JobPlan& plan() const { return plan_; }

  /// Returns the files that should not be there.
  std::vector<std::string> leftovers() const {
    std::vector<std::string> names;
    for (const char* folder : {"work", "tmp"}) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path(folder))) {
        if (!entry.is_directory() && !may_be_left(entry.path().filename())) names.push_back(entry.path());
      }
    }
    return names;
  }
  std::filesystem::path result() const { return path("work") / "result.json"; }

 private:
  std::size_t size() const { return static_cast<std::size_t>(plan_.ranks); }
  std::size_t victim() const { return static_cast<std::size_t>(plan_.victim); }
  microseconds start_of(std::int32_t rank) const { return plan_.start[static_cast<std::size_t>(rank)]; }
  std::filesystem::path path(const char* folder) const { return folder_.path() / folder; }

  /// Returns true for the result file. Also returns true for the victim's temporary file if the signal ends a
  /// process without cleanup.
  bool may_be_left(const std::string& name) const {
    const bool can_tidy_up = plan_.signal == SIGTERM || plan_.signal == SIGINT || plan_.signal == SIGHUP;
    return name == "result.json" ||
           (!can_tidy_up && name == "result.json." + std::to_string(processes_[victim()]) + ".tmp");
  }

  void start(std::int32_t rank) {
    const pid_t process = fork();
    ASSERT_GE(process, 0);
    processes_[static_cast<std::size_t>(rank)] = process;
    if (process == 0) become(rank);
  }

  [[noreturn]] void become(std::int32_t rank) const {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    const std::string number = std::to_string(rank);
    std::vector<std::string> environment = {
        "RANK=" + number,        "WORLD_SIZE=" + std::to_string(plan_.ranks),
        "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port_),
        "LC_ALL=C.UTF-8",        "TMPDIR=" + path("tmp").string()};
    if (plan_.has_secret) environment.emplace_back("PENSTOCK_SECRET=known to all ranks of this job");
    std::vector<std::string> words = {PENSTOCK_EXECUTABLE,
                                      "run",
                                      "--backend",
                                      "cpu-process",
                                      "--schedule",
                                      "1f1b",
                                      "--pp-size",
                                      std::to_string(plan_.ranks),
                                      "--num-microbatches",
                                      "4",
                                      "--warmup",
                                      "0",
                                      "--repeats",
                                      "2",
                                      "--time-scale",
                                      "2",
                                      "--deadline",
                                      std::to_string(kJobDeadline.count()),
                                      "--quiet",
                                      "-o",
                                      "result.json"};
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> to;
      to.reserve(texts.size() + 1);
      for (std::string& text : texts) to.push_back(text.data());
      to.push_back(nullptr);
      return to;
    };
    if (chdir(path("work").c_str()) != 0) _exit(99);
    dup2(open((path("out") / ("out" + number)).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), STDOUT_FILENO);
    dup2(open((path("out") / ("err" + number)).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), STDERR_FILENO);
    execve(words[0].c_str(), pointers(words).data(), pointers(environment).data());
    _exit(99);
  }

  bool has_ended(std::size_t rank) {
    int status = 0;
    if (!status_[rank] && waitpid(processes_[rank], &status, WNOHANG) == processes_[rank])
      status_[rank] = status;
    return status_[rank].has_value();
  }
  /// Returns true if all ranks have ended. A stopped rank does not count.
  bool have_ended() {
    bool all = true;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      const bool is_stopped = plan_.signal == SIGSTOP && rank == victim();
      all &= has_ended(rank) || is_stopped;
    }
    return all;
  }
  /// Continues the stopped rank, which must find that the other ranks have ended, and waits for it.
  void go_on() {
    kill(processes_[victim()], SIGCONT);
    const auto begin = steady_clock::now();
    while (!has_ended(victim()) && steady_clock::now() - begin < kJobDeadline + kJobSlack)
      std::this_thread::sleep_for(milliseconds(1));
  }

  JobPlan plan_;
  ScratchFolder folder_;
  std::uint16_t port_ = HeldPort().port();
  std::vector<pid_t> processes_;
  std::vector<std::optional<int>> status_;
  milliseconds took_{};
};

/// Returns a random plan. `usual` is the duration of a job without a signal.
JobPlan random_plan(std::mt19937& random, microseconds usual) {
  const auto below = [&](std::int64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  constexpr std::array kSignals = {SIGKILL, SIGKILL, SIGSTOP, SIGSTOP, SIGTERM,
                                   SIGINT,  SIGHUP,  SIGQUIT, SIGABRT};
  JobPlan plan;
  plan.ranks = static_cast<std::int32_t>(2 + below(2));
  plan.has_secret = below(1) == 1;
  // A launcher starts most ranks at nearly the same time. Sometimes one rank is late and the others wait for
  // it.
  for (std::int32_t rank = 0; rank < plan.ranks; ++rank) plan.start.emplace_back(below(10'000));
  if (below(3) == 0)
    plan.start[static_cast<std::size_t>(below(plan.ranks - 1))] += microseconds(below(usual.count()));
  plan.victim = below(2) == 0 ? 0 : static_cast<std::int32_t>(below(plan.ranks - 1));
  plan.signal = kSignals[static_cast<std::size_t>(below(kSignals.size() - 1))];
  plan.moment = microseconds(below(usual.count() * 11 / 10));
  return plan;
}

/// Returns true if the message names the rank, the place or action, the problem, and another rank.
bool names_rank_action_and_peer(const std::string& words) {
  std::smatch found;
  static const std::regex form(
      "^penstock: (?:run: )?rank ([0-9]+): (?:the start|the clock alignment|the end of its list|the barrier|"
      "[0-9]+(?:F|B|SEND_F|SEND_B|RECV_F|RECV_B)[0-9]+|[0-9]+STEP): (.+)\n$");
  if (!std::regex_match(words, found, form)) return false;
  const std::string what = found[2];
  static const std::regex rank("ranks? ([0-9]+)(?:, ([0-9]+))?");
  for (std::sregex_iterator next(what.begin(), what.end(), rank); next != std::sregex_iterator(); ++next) {
    if ((*next)[1] != found[1]) return true;
  }
  return false;
}

void expect_failure_is_named(const LaunchedJob& job, std::int32_t rank) {
  EXPECT_TRUE(job.has_failed(rank));
  // A rank that was stopped for too long cannot know where the others were. It then reports that it was
  // suspended.
  const bool was_suspended = rank == job.plan().victim && job.plan().signal == SIGSTOP &&
                             job.words(rank).find("the run was suspended for ") != std::string::npos;
  EXPECT_TRUE(was_suspended || names_rank_action_and_peer(job.words(rank)));
}

void expect_end_in_order(const LaunchedJob& job, std::int32_t rank) {
  SCOPED_TRACE(testing::Message() << "rank " << rank << ": " << job.words(rank));
  const auto& status = job.status(rank);
  ASSERT_TRUE(status) << "it has not ended within the deadline";
  if (WIFSIGNALED(*status)) {
    EXPECT_EQ(rank, job.plan().victim);
    EXPECT_EQ(WTERMSIG(*status), job.plan().signal);
  } else if (WEXITSTATUS(*status) == 0) {
    EXPECT_EQ(job.words(rank), "");
  } else {
    expect_failure_is_named(job, rank);
  }
}

/// Expects that the result is complete or absent. If rank 0 succeeded, the result and the table must exist.
void expect_result_is_whole(const LaunchedJob& job, bool rank_zero_is_well) {
  if (rank_zero_is_well) {
    EXPECT_THAT(job.table(), testing::HasSubstr("measured by cpu-process"));
  }
  if (rank_zero_is_well || std::filesystem::exists(job.result())) {
    EXPECT_THAT(test::text_of(job.result()), testing::EndsWith("}\n"));
  }
}

void expect_in_order(const LaunchedJob& job) {
  const JobPlan& plan = job.plan();
  for (std::int32_t rank = 0; rank < plan.ranks; ++rank) expect_end_in_order(job, rank);
  EXPECT_EQ(job.leftovers(), std::vector<std::string>{});
  const bool rank_zero_is_well =
      job.status(0) && WIFEXITED(*job.status(0)) && WEXITSTATUS(*job.status(0)) == 0;
  expect_result_is_whole(job, rank_zero_is_well);
  // Rank 0 decides at the end: if it succeeds, no other rank may fail.
  for (std::int32_t rank = 1; rank_zero_is_well && rank < plan.ranks; ++rank)
    EXPECT_TRUE(rank == plan.victim || !job.has_failed(rank)) << job.words(rank);
}

TEST(LaunchedKills, SignalsAtRandomMomentsEndAllInTimeAndLeaveNothing) {
  LaunchedJob usual({.ranks = 3, .has_secret = false, .start = std::vector<microseconds>(3)});
  const auto begin = steady_clock::now();
  usual.run();
  const auto took = duration_cast<microseconds>(steady_clock::now() - begin);
  ASSERT_EQ(usual.status(0), std::optional(0)) << usual.words(0);
  expect_in_order(usual);
  const std::uint32_t kills = kills_or(10);
  std::uint32_t failures = 0;
  milliseconds longest{};
  for (std::uint32_t seed = 0; seed < kills; ++seed) {
    std::mt19937 random(seed);
    LaunchedJob job(random_plan(random, took));
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << job.plan().ranks << " ranks, signal "
                                    << job.plan().signal << " to rank " << job.plan().victim << " "
                                    << job.plan().moment.count() << " us after its start");
    job.run();
    expect_in_order(job);
    longest = std::max(longest, job.took());
    for (std::int32_t rank = 0; rank < job.plan().ranks; ++rank) {
      if (!job.has_failed(rank)) continue;
      ++failures;
      break;
    }
  }
  std::cout << "  " << failures << " of " << kills << " runs failed; the others ended within "
            << longest.count() << " ms\n"
            << std::flush;  // later tests in this process fork
  EXPECT_GE(failures, kills / 3);
}

}  // namespace
}  // namespace penstock
