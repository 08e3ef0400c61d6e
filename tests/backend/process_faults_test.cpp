// Tests what happens if a process of a run fails, is killed, is stopped, or never starts. All processes end
// within the deadline, the error names the place, and no process or file remains.

#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/executor/executor.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/deadlines.hpp"
#include "tests/backend/process_fixture.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::StartsWith;

/// Waits long enough for the other ranks to report that they wait. Then sends the signal.
void pause_and(int signal) {
  std::this_thread::sleep_for(milliseconds(200));
  raise(signal);
}

/// Returns the present children of a process, as the kernel lists them. Only children of its main thread are
/// listed, because only this thread forks here.
std::vector<pid_t> children_of(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

TEST(ProcessFaults, AWorkerThatThrowsEndsAllOthers) {
  FaultyRun run(one_f_one_b_of(4));
  const ExecutionError error =
      run.with_fault(1, [] { throw std::runtime_error("the weights are gone"); }, 0).error(kLong);
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(error.action, "1F0");
  EXPECT_EQ(error.peer, 2);
  EXPECT_THAT(error.message, StartsWith("rank 1: 1F0: the weights are gone; rank 2 "));
  EXPECT_LT(run.took(), kSoon);
  EXPECT_FALSE(has_children());
}

TEST(ProcessFaults, AWorkerWithoutMemorySaysSo) {
  FaultyRun run(one_f_one_b_of(3));
  const ExecutionError error = run.with_fault(1, [] { throw std::bad_alloc(); }, 0).error(seconds(20));
  EXPECT_THAT(error.message, StartsWith("rank 1: 1F0: it has too little memory; rank "));
}

TEST(ProcessFaults, AWorkerThatThrowsWhatIsNoExceptionIsNamedAllTheSame) {
  FaultyRun run(one_f_one_b_of(3));
  const ExecutionError error = run.with_fault(1, [] { throw 7; }, 0).error(seconds(20));
  EXPECT_THAT(error.message, StartsWith("rank 1: 1F0: an exception of unknown type; rank "));
}

TEST(ProcessFaults, AWorkerThatIsKilledIsNoticedAtOnceAndNamedWithItsPeer) {
  FaultyRun run(one_f_one_b_of(3));
  const ExecutionError error = run.with_fault(1, [] { pause_and(SIGKILL); }, 1).error(kLong);
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(error.action, "1F1");
  EXPECT_NE(error.peer, -1);
  EXPECT_THAT(error.message, StartsWith("rank 1: 1F1: its process was killed by signal 9 (Killed); rank "));
  EXPECT_THAT(error.message, HasSubstr(" waits for it at "));
  EXPECT_LT(run.took(), kSoon);
  EXPECT_FALSE(has_children());
}

TEST(ProcessFaults, AProcessThatExitsIsNamedWithItsStatus) {
  FaultyRun run(one_f_one_b_of(2));
  const ExecutionError error = run.with_fault(0, [] { _exit(7); }, 3).error(seconds(20));
  EXPECT_EQ(error.rank, 0);
  EXPECT_THAT(error.message, HasSubstr("its process ended with status 7; rank 1 "));
  EXPECT_FALSE(has_children());
}

TEST(ProcessFaults, AWorkerThatIsStoppedIsFoundByItsSilence) {
  FaultyRun run(one_f_one_b_of(2));
  const ExecutionError error = run.with_fault(0, [] { pause_and(SIGSTOP); }, 0).error(kKept);
  EXPECT_EQ(error.rank, 0);
  EXPECT_EQ(error.action, "0F0");
  EXPECT_EQ(error.peer, 1);
  EXPECT_EQ(
      error.message,
      "rank 0: 0F0: its process is suspended and gave no sign of life for 2 s; rank 1 waits for it at 1F0");
  EXPECT_GE(run.took(), kKept);
  EXPECT_LT(run.took(), kSoon);
  EXPECT_FALSE(has_children());
}

TEST(ProcessFaults, AStuckWorkerIsFoundByTheDeadlineThoughItsProcessLives) {
  FaultyRun run(one_f_one_b_of(2));
  const ExecutionError error = run.with_fault(0, [] { std::this_thread::sleep_for(kLong); }, 0).error(kKept);
  EXPECT_EQ(error.message, "rank 0: 0F0: still running after 2 s; rank 1 waits for it at 1F0");
  EXPECT_LT(run.took(), kSoon);
  EXPECT_FALSE(has_children());
}

TEST(ProcessFaults, ALongWaitIsNoFaultWhileOthersGetOn) {
  // Rank 0 waits for ten actions of other ranks, which take 3 s.
  FaultyRun run(*generate("naive", {.stages = 6, .microbatches = 1}), 300'000'000);
  EXPECT_EQ(run.error(kKept).message, "");
  EXPECT_GE(run.took(), milliseconds(3600));
}

TEST(ProcessFaults, AFailureOfTheOnlyRankIsFound) {
  FaultyRun run(one_f_one_b_of(1));
  const ExecutionError error = run.with_fault(0, [] { pause_and(SIGKILL); }, 0).error(seconds(20));
  EXPECT_EQ(error.message, "rank 0: 0F0: its process was killed by signal 9 (Killed)");
  EXPECT_FALSE(has_children());
}

// --- processes that a launcher has started ----------------------------------------------------------

TEST(ProcessFaults, RanksThatOthersStartedRunTogether) {
  const FaultyRun run(one_f_one_b_of(3));
  const std::uint16_t port = HeldPort().port();
  RankProcess two(run, place_of(2, port), seconds(20));
  RankProcess zero(run, place_of(0, port), seconds(20));
  RankProcess one(run, place_of(1, port), seconds(20));
  EXPECT_EQ(zero.words(), "ended well");
  EXPECT_EQ(one.words(), "ended well");
  EXPECT_EQ(two.words(), "ended well");
}

TEST(ProcessFaults, AnotherProgramIsRefusedWithBothRanksAndDigests) {
  const FaultyRun run(one_f_one_b_of(3));
  const FaultyRun other(*generate("gpipe", {.stages = 3, .microbatches = 8}));
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, place_of(0, port), seconds(20));
  RankProcess one(run, place_of(1, port), seconds(20));
  RankProcess two(other, place_of(2, port), seconds(20));
  const std::string words = zero.words();
  EXPECT_THAT(words,
              testing::ContainsRegex("^rank 2 has another program than rank 0: digests [0-9a-f]{32} and "
                                     "[0-9a-f]{32}; start all ranks with the same program and flags$"));
  EXPECT_EQ(one.words(), words);
  EXPECT_EQ(two.words(), words);
}

TEST(ProcessFaults, TwoProcessesOfOneRankAreRefused) {
  const FaultyRun run(one_f_one_b_of(3));
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, place_of(0, port), seconds(20));
  RankProcess one(run, place_of(1, port), seconds(20));
  RankProcess again(run, place_of(1, port), seconds(20));
  const std::string words = zero.words();
  EXPECT_THAT(words,
              testing::ContainsRegex("^rank 1: the start: two processes have this rank: [0-9]+ and [0-9]+; "
                                     "rank 0 waits for it there$"));
  EXPECT_EQ(one.words(), words);
  EXPECT_EQ(again.words(), words);
}

TEST(ProcessFaults, ARankThatTheProgramDoesNotHaveIsRefused) {
  const FaultyRun run(one_f_one_b_of(2));
  const FaultyRun larger(one_f_one_b_of(5));
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, place_of(0, port), seconds(20));
  RankProcess four(larger, place_of(4, port), seconds(20));
  EXPECT_EQ(four.words(), "rank 4: the program has 2 ranks: a process must have a rank from 0 to 1");
}

TEST(ProcessFaults, APortInUseIsSaidAtOnce) {
  const FaultyRun run(one_f_one_b_of(2));
  const HeldPort held;
  RankProcess zero(run, place_of(0, held.port()), seconds(20));
  EXPECT_EQ(zero.words(), "cannot listen on 127.0.0.1:" + std::to_string(held.port()) +
                              ": Address already in use; give all ranks another address or port");
}

TEST(ProcessFaults, PeersThatNeverComeAreNamed) {
  const FaultyRun run(one_f_one_b_of(4));
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, place_of(0, port), kLong, seconds(4));
  RankProcess one(run, place_of(1, port), kLong);
  const std::string words = "rank 2: the start: waited 4 s for ranks 2, 3 to join; rank 0 waits for it there";
  EXPECT_EQ(zero.words(), words);
  EXPECT_EQ(one.words(), words);
}

TEST(ProcessFaults, ACoordinatorThatNeverComesIsNamed) {
  const FaultyRun run(one_f_one_b_of(2));
  const std::string port = std::to_string(HeldPort().port());
  RankProcess one(run, place_of(1, static_cast<std::uint16_t>(std::stoi(port))), seconds(20), seconds(1));
  EXPECT_EQ(one.words(), "rank 1: the start: waited 1 s for rank 0 to join it: cannot connect to 127.0.0.1:" +
                             port + ": Connection refused");
}

/// Moves this process into a network of its own, in which the kernel assigns only two ports. Returns false if
/// no such network can be made.
bool enter_network_of_two_ports(std::uint16_t first) {
  // Root needs no user namespace, and inside a chroot the kernel does not allow one.
  if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const int asking = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq loopback{};
  std::strncpy(loopback.ifr_name, "lo", sizeof(loopback.ifr_name) - 1);
  loopback.ifr_flags = IFF_UP;
  const bool is_up = ioctl(asking, SIOCSIFFLAGS, &loopback) == 0;
  close(asking);
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range << first << " " << first + 1 << std::flush;
  return is_up && range.good();
}

TEST(ProcessFaults, ARankThatWaitsForItsCoordinatorIsNotConnectedToItself) {
  const FaultyRun run(one_f_one_b_of(2));
  RankProcess one([&]() -> std::string {
    constexpr std::uint16_t kPort = 40'000;
    if (!enter_network_of_two_ports(kPort)) return "no network";
    const auto ended = execute_as_rank(run.execution(seconds(20), seconds(1)), place_of(1, kPort));
    return ended ? "ended well" : ended.error().message;
  });
  const std::string words = one.words();
  if (words == "no network") GTEST_SKIP() << "this user can make no network of its own";
  EXPECT_EQ(words,
            "rank 1: the start: waited 1 s for rank 0 to join it: cannot connect to 127.0.0.1:40000: "
            "Connection refused");
}

TEST(ProcessFaults, APortOfSomebodyElseIsNoCoordinator) {
  const FaultyRun run(one_f_one_b_of(2));
  const HeldPort held;
  RankProcess one(run, place_of(1, held.port()), milliseconds(300), seconds(1));
  EXPECT_THAT(one.words(),
              StartsWith("rank 1: the start: who listens on 127.0.0.1:" + std::to_string(held.port()) +
                         " for rank 0 has left no secret for this job's ranks: "));
  ProcessPlace given = place_of(1, held.port());
  given.secret = "known to all ranks of the job";
  RankProcess with_secret(run, given, milliseconds(300));
  EXPECT_THAT(with_secret.words(),
              StartsWith("rank 1: the start: the coordinator gave no sign of life for 0.3 s"));
}

TEST(ProcessFaults, TooFewDescriptorsAreNamedAndNotAStatus) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer asks over a pipe what memory can be read, and finds faults where it gets none";
#endif
  FaultyRun run(one_f_one_b_of(3));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  constexpr int kNamed = 1;
  constexpr int kNotNamed = 2;
  int named = 0;
  for (const rlim_t allowed : {4U, 5U, 6U, 7U, 8U, 9U, 10U, 11U, 12U}) {
    const pid_t tight = fork();  // a child process, because a lowered hard limit cannot be raised again
    if (tight == 0) {
      const rlimit limit = {.rlim_cur = allowed, .rlim_max = allowed};
      setrlimit(RLIMIT_NOFILE, &limit);
      const auto ended = execute_in_processes(run.execution(seconds(20)));
      if (ended) _exit(0);
      if (ended.error().message.find("Too many open files") != std::string::npos) _exit(kNamed);
      std::cerr << allowed << " descriptors: " << ended.error().message << "\n";
      _exit(kNotNamed);
    }
    int status = 0;
    waitpid(tight, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    EXPECT_NE(WEXITSTATUS(status), kNotNamed);
    named += WEXITSTATUS(status) == kNamed ? 1 : 0;
  }
  EXPECT_GT(named, 4);
}

/// While this object exists, the first child of this process stops itself before it does anything else. A
/// hook of fork() stops the child, because any other process might be too late.
class FirstChildStops {
 public:
  FirstChildStops() {
    // A registered hook cannot be removed. One hook is enough, and it does nothing outside these tests.
    static const int registered = pthread_atfork([] { ++forks; }, nullptr,
                                                 [] {
                                                   if (is_on && forks == 1) raise(SIGSTOP);
                                                 });
    EXPECT_EQ(registered, 0);
    forks = 0;
    is_on = true;
  }
  FirstChildStops(const FirstChildStops&) = delete;
  FirstChildStops& operator=(const FirstChildStops&) = delete;
  ~FirstChildStops() { is_on = false; }

 private:
  static inline int forks = 0;
  static inline bool is_on = false;
};

TEST(ProcessFaults, AChildThatIsSuspendedBeforeItJoinsIsFoundByTheDeadline) {
  FaultyRun run(one_f_one_b_of(3));
  const FirstChildStops stopping;
  const ExecutionError error = run.error(kKept);
  EXPECT_EQ(
      error.message,
      "rank 0: the start: waited 2 s for rank 0 to join, suspended by a signal; rank 1 waits for it there");
  EXPECT_LT(run.took(), kSoon) << "patience is 60 s";
  EXPECT_FALSE(has_children());
}

TEST(ProcessFaults, ASuspensionOfTheWholeRunIsNoRanksFault) {
  // As with Ctrl-Z, all processes stop at the same moment and continue together.
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t group = fork();
  if (group == 0) {
    setpgid(0, 0);
    const FaultyRun run(one_f_one_b_of(2), 400'000'000);
    const auto ended = execute_in_processes(run.execution(kKept));
    const std::string words = ended ? "ended well" : ended.error().message;
    _exit(write(ends[1], words.data(), words.size()) < 0 ? 1 : 0);
  }
  std::this_thread::sleep_for(milliseconds(300));
  kill(-group, SIGSTOP);
  std::this_thread::sleep_for(2 * kKept);
  kill(-group, SIGCONT);
  waitpid(group, nullptr, 0);
  std::array<char, 4096> words{};
  EXPECT_GT(read(ends[0], words.data(), words.size() - 1), 0);
  EXPECT_THAT(words.data(), StartsWith("the run was suspended for "));
  close(ends[0]);
  close(ends[1]);
}

TEST(ProcessFaults, SurvivorsEndWhenTheCoordinatorIsKilled) {
  FaultyRun run(one_f_one_b_of(3));
  run.with_fault(0, [] { pause_and(SIGKILL); }, 0);
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, place_of(0, port), seconds(20));
  RankProcess one(run, place_of(1, port), seconds(20));
  RankProcess two(run, place_of(2, port), seconds(20));
  EXPECT_THAT(one.words(), StartsWith("rank 1: 1F0: the coordinator has gone"));
  EXPECT_THAT(two.words(), StartsWith("rank 2: 2F0: the coordinator has gone"));
}

TEST(ProcessFaults, SurvivorsEndWhenTheCoordinatorIsStopped) {
  FaultyRun run(one_f_one_b_of(3));
  run.with_fault(0, [] { pause_and(SIGSTOP); }, 0);
  const std::uint16_t port = HeldPort().port();
  RankProcess zero(run, place_of(0, port), kKept);
  RankProcess one(run, place_of(1, port), kKept);
  RankProcess two(run, place_of(2, port), kKept);
  EXPECT_THAT(one.words(), StartsWith("rank 1: 1F0: the coordinator gave no sign of life for 2 s"));
  EXPECT_THAT(two.words(), StartsWith("rank 2: 2F0: the coordinator gave no sign of life for 2 s"));
}

TEST(ProcessFaults, ARankThatTriesToReachAPeerEndsWhenTheCoordinatorHasGone) {
  FaultyRun run(one_f_one_b_of(2));
  ProcessPlace place = place_of(1, HeldPort().port());
  place.secret = "known to both ranks here";
  const auto begin = steady_clock::now();
  RankProcess one(run, place, kLong, kLong);
  {
    // This is as with a rank 0 that has just been killed: no process listens at its address any more.
    Welcome welcome{.peers = std::vector<Endpoint>(2, {.port = HeldPort().port()})};
    bool has_welcomed = false;
    SocketLoop zero({.received =
                         [&](ConnectionId from, const Frame&) {
                           if (!std::exchange(has_welcomed, true)) zero.send(from, encoded(welcome));
                         },
                     .closed = [](ConnectionId, Closing) {},
                     .most_bytes = [](ConnectionId, const Frame&) { return kMostControlBytes; }});
    zero.prove_with(place.secret);
    ASSERT_TRUE(zero.bind(place.coordinator));
    ASSERT_TRUE(zero.listen());
    while (!has_welcomed) zero.run_until(steady_clock::now() + milliseconds(10));
    zero.run_until(steady_clock::now() + milliseconds(200));
  }
  EXPECT_THAT(one.words(), StartsWith("rank 1: the start: the coordinator has gone; rank 0 "));
  EXPECT_LT(steady_clock::now() - begin, kSoon);
}

// A suspended coordinator reads this message when it continues, even if all ranks had ended before.
TEST(ProcessFaults, ARankThatWaitsNoLongerForTheCoordinatorTellsItSo) {
  FaultyRun run(one_f_one_b_of(2));
  ProcessPlace place = place_of(1, HeldPort().port());
  place.secret = "known to both ranks here";
  const ProcessExecution execution = run.execution(milliseconds(300));
  const ProgramSizes sizes(execution.flat);
  RankProcess one(execution, place);
  std::string told;
  SocketLoop zero({.received =
                       [&](ConnectionId, const Frame& frame) {
                         const auto message = decoded(frame, sizes);
                         if (!message) return;
                         if (const auto* failed = std::get_if<Failed>(&*message)) told = failed->what;
                       },
                   .closed = [](ConnectionId, Closing) {},
                   .most_bytes = [](ConnectionId, const Frame&) { return kMostControlBytes; }});
  zero.prove_with(place.secret);
  ASSERT_TRUE(zero.bind(place.coordinator));
  ASSERT_TRUE(zero.listen());
  const auto until = steady_clock::now() + kSoon;
  while (told.empty() && steady_clock::now() < until) zero.run_until(steady_clock::now() + milliseconds(10));
  EXPECT_EQ(told, "the coordinator gave no sign of life for 0.3 s");
  EXPECT_THAT(one.words(), testing::HasSubstr("the coordinator gave no sign of life for 0.3 s"));
}

// --- random moments ---------------------------------------------------------------------------------

TEST(ProcessFaults, ChildrenEndWithTheirParent) {
  FaultyRun run(one_f_one_b_of(3));
  run.with_fault(1, [] { raise(SIGSTOP); }, 0);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans then become children of the test
  const pid_t parent = fork();
  if (parent == 0) _exit(execute_in_processes(run.execution(seconds(60))) ? 0 : 1);
  const auto latest = steady_clock::now() + kSoon;
  while (children_of(parent).size() < 3 && steady_clock::now() < latest)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(children_of(parent).size(), 3);
  kill(parent, SIGKILL);
  int reaped = 0;
  const auto until = steady_clock::now() + kSoon;
  for (pid_t ended = 0; ended != -1 && steady_clock::now() < until; ended = waitpid(-1, nullptr, WNOHANG)) {
    if (ended > 0) ++reaped;
    if (ended == 0) std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(reaped, 4);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/// Starts a process that after a while sends a signal to another child of its parent.
pid_t start_hunter(std::uint32_t seed) {
  const pid_t hunted = getpid();
  const pid_t hunter = fork();
  if (hunter != 0) return hunter;
  std::mt19937 random(seed);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
  std::vector<pid_t> prey = children_of(hunted);
  std::erase(prey, getpid());
  constexpr std::array kSignals = {SIGKILL, SIGSTOP, SIGTERM, SIGINT};
  if (!prey.empty()) kill(prey[random() % prey.size()], kSignals[random() % kSignals.size()]);
  _exit(0);
}

TEST(ProcessFaults, SignalsAtRandomMomentsLeaveNothingBehindAndAreNamed) {
  const std::uint32_t kills = kills_or(150);
  std::mt19937 random(7);
  std::uint32_t failures = 0;
  for (std::uint32_t seed = 0; seed < kills; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto stages = static_cast<std::int32_t>(2 + random() % 3);
    FaultyRun run(one_f_one_b_of(stages), 2'000'000);
    const pid_t hunter = start_hunter(seed);
    const ExecutionError error = run.error(milliseconds(500));
    waitpid(hunter, nullptr, 0);
    EXPECT_FALSE(has_children());
    EXPECT_LT(run.took(), kSoon);
    if (error.message.empty()) continue;  // the run had ended before the signal
    ++failures;
    EXPECT_GE(error.rank, 0) << error.message;
    EXPECT_LT(error.rank, stages);
    EXPECT_NE(error.action, "");
    EXPECT_THAT(error.message, testing::ContainsRegex("signal|suspended|no sign of life")) << error.message;
    EXPECT_GE(error.peer, 0) << error.message;
  }
  std::cout << "  " << failures << " of " << kills << " runs were hit\n";
  EXPECT_GE(failures, kills / 2);
}

}  // namespace
}  // namespace penstock
