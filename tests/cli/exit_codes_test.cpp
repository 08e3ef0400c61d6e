// Scripts rely on the exit codes that docs/reference/exit-codes.md lists. The tests provoke each code.

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "cli/executable.hpp"
#include "cli/measuring.hpp"
#include "cli/outcome.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "tests/backend/faulty_module.hpp"
#include "tests/cli/transcript.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class ExitCodes : public testing::Test {
 protected:
  std::string outcome(const std::string& command) const { return outcome_of(command, folder_.path()); }
  /// Expects that the command ends with this status.
  void expect(ExitCode code, const std::string& command) const {
    const std::string printed = outcome(command);
    std::smatch found;
    const bool failed = std::regex_search(printed, found, std::regex("\\[exit ([0-9]+)\\]"));
    EXPECT_EQ(failed ? std::stoi(found[1]) : 0, static_cast<int>(code)) << "$ " << command << "\n" << printed;
  }

  /// A sanitizer reserves a very large address space when a program starts, so no limit can be set.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kAddressesCanBeBounded = false;
#else
  static constexpr bool kAddressesCanBeBounded = true;
#endif

  ScratchFolder folder_;
};

const std::string kRun = "penstock run --schedule 1f1b --pp-size 2 --num-microbatches 4 --repeats 1 ";

/// Maps each exit code to its meaning, in lower case and without the explanation that follows.
using Meanings = std::map<int, std::string>;

std::string in_short(const std::string& meaning) {
  std::string text = meaning.substr(0, meaning.find_first_of(":;(|"));
  while (text.ends_with(' ')) text.pop_back();
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Returns the meanings in the table of the reference page.
Meanings meanings_of_page() {
  std::ifstream page(source_path("docs/reference/exit-codes.md"));
  Meanings meanings;
  std::smatch found;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) inside = line == "# Exit codes";
    if (inside && std::regex_match(line, found, std::regex("\\| ([0-9]+) \\| (.*)")))
      meanings[std::stoi(found[1])] = in_short(found[2]);
  }
  return meanings;
}

/// Reads a text such as "Exit status: 0 ok; 1 a check failed (...); 2 bad input."
Meanings meanings_of_help(std::string help) {
  const std::string begin = "Exit status: ";
  help.erase(0, std::min(help.size(), help.find(begin) + begin.size()));
  help.erase(std::min(help.size(), help.find(".\n\n")));
  std::ranges::replace(help, '\n', ' ');
  Meanings meanings;
  std::istringstream parts(help);
  for (std::string part; std::getline(parts >> std::ws, part, ';');)
    meanings[std::stoi(part)] = in_short(part.substr(part.find(' ') + 1));
  return meanings;
}

TEST_F(ExitCodes, ThePageListsThemAllAndNoOther) {
  std::vector<int> listed;
  for (const auto& [code, meaning] : meanings_of_page()) listed.push_back(code);
  std::vector<int> codes;
  for (const ExitCode code :
       {ExitCode::ok, ExitCode::check_failed, ExitCode::bad_input, ExitCode::internal_error,
        ExitCode::run_failed, ExitCode::undecided, ExitCode::not_available}) {
    codes.push_back(static_cast<int>(code));
  }
  EXPECT_EQ(listed, codes);
}

TEST_F(ExitCodes, TheHelpSaysWhatThePageSays) {
  const Meanings page = meanings_of_page();
  const Meanings help = meanings_of_help(outcome("penstock --help"));
  ASSERT_EQ(page.size(), help.size());
  // The help may add a few words after the meaning that the page gives.
  for (const auto& [code, meaning] : page) EXPECT_THAT(help.at(code), testing::StartsWith(meaning)) << code;
}

TEST_F(ExitCodes, ZeroIsOk) { expect(ExitCode::ok, kRun); }

TEST_F(ExitCodes, OneIsACheckThatFailed) {
  // Rank 0 must send F1 while rank 1 must send B0. With one queue for each rank, neither rank can continue.
  // With one queue for each direction, both can.
  folder_.write("hangs.psched",
                "penstock program 1\nschedule crossed\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
                "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
                "rank 1: 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n");
  expect(ExitCode::ok, "penstock simulate hangs.psched");
  for (const std::string command : {"check", "simulate", "run", "run --backend cpu-process"})
    expect(ExitCode::check_failed, "penstock " + command + " hangs.psched --channel rank");
  folder_.write("invalid.psched",
                "penstock program 1\nschedule twice\nmicrobatches 1\nstage 0: rank 0\nrank 0: 0F0 0F0 0B0\n");
  for (const std::string command : {"check", "simulate", "run", "run --backend cpu-process"})
    expect(ExitCode::check_failed, "penstock " + command + " invalid.psched");
  const std::string small =
      " --schedule gpipe --pp-size 2 --num-microbatches 8 --set cluster.preset=uniform "
      "--set cluster.memory=4B";
  expect(ExitCode::ok, "penstock simulate" + small);
  expect(ExitCode::check_failed, "penstock simulate --fail-on-oom" + small);
}

TEST_F(ExitCodes, TwoIsBadInput) {
  expect(ExitCode::bad_input, "penstock simulate nothing.yaml");
  expect(ExitCode::bad_input, "penstock simulate --schedule 1f1b --pp-size 0 --num-microbatches 4");
  expect(ExitCode::bad_input, kRun + "--time-scale nan");
  expect(ExitCode::bad_input, kRun + "-o missing/folder.json");
}

TEST_F(ExitCodes, AFileToGoOnFromThatHasNoEndIsBadInput) {
  const std::string command =
      "truncate -s 10G points; penstock sweep --schedule 1f1b --pp-size 4 --num-microbatches 8 --resume "
      "points";
  expect(ExitCode::bad_input, command);
  EXPECT_EQ(outcome(command),
            "! penstock: points:1: expected a line of at most 1 MiB; name another file\n[exit 2]\n");
}

TEST_F(ExitCodes, ASweepWithoutFiguresIsNoSuccess) {
  const std::string sweep = "penstock sweep --schedule dualpipe --pp-size 4 --num-microbatches ";
  expect(ExitCode::bad_input, sweep + "2");
  expect(ExitCode::ok, sweep + "2,8");
  folder_.write("stuck.yaml",
                "schedule: {name: 1f1b-rr, stages: 2, replicas: [1, 4], microbatches: 8, warmup: [0, 1]}\n");
  expect(ExitCode::check_failed, "penstock sweep stuck.yaml");
}

TEST_F(ExitCodes, AShapeThatMemoryCannotHoldIsBadInputBeforeItIsStored) {
  if (!kAddressesCanBeBounded) GTEST_SKIP() << "no bound on addresses under a sanitizer";
  const std::string command =
      "ulimit -v 1500000; penstock simulate --schedule 1f1b --pp-size 64 --num-microbatches 100000 --engine "
      "event";
  expect(ExitCode::bad_input, command);
  EXPECT_THAT(outcome(command),
              testing::MatchesRegex("! penstock: 1.28e\\+07 compute actions take at least 2.15 GiB of "
                                    "memory, and .* within reach: take fewer .*"));
}

TEST_F(ExitCodes, ACheckThatMemoryCannotHoldIsBadInputBeforeItBegins) {
  if (!kAddressesCanBeBounded) GTEST_SKIP() << "no bound on addresses under a sanitizer";
  const std::string command =
      "ulimit -v 1500000; penstock check --schedule 1f1b --pp-size 1000 --num-microbatches 100000";
  expect(ExitCode::bad_input, command);
  EXPECT_THAT(outcome(command),
              testing::MatchesRegex("! penstock: 2e\\+08 compute actions take at least 21.72 GiB of memory, "
                                    "and .* within reach: take fewer .*"));
}

TEST_F(ExitCodes, AGridThatMemoryCannotHoldIsBadInput) {
  if (!kAddressesCanBeBounded) GTEST_SKIP() << "no bound on addresses under a sanitizer";
  const std::string command =
      "ulimit -v 1500000; penstock sweep --schedule 1f1b --pp-size 1..100000 --num-microbatches 1..100 "
      "--max-points 10000000";
  expect(ExitCode::bad_input, command);
  EXPECT_THAT(outcome(command),
              testing::MatchesRegex("! penstock: the 10000000 points of the grid take at least .* of "
                                    "memory, and .* are within reach: make its lists shorter.*"));
}

TEST_F(ExitCodes, ProcessesWithoutAddressesForTheirThreadsAreBadInput) {
  if (!kAddressesCanBeBounded) GTEST_SKIP() << "no bound on addresses under a sanitizer";
  // The stacks of the threads are larger than this limit. The program itself needs far less.
  const std::string bounds = "ulimit -s 400000; ulimit -v 300000; ";
  expect(ExitCode::bad_input, bounds + kRun + "--backend cpu-process");
  EXPECT_THAT(
      outcome(bounds + kRun + "--backend cpu-process"),
      testing::MatchesRegex("! penstock: 2 ranks take a process each, of at least 391.25 MiB of addresses, "
                            "390.62 MiB of them for stacks of threads, and .* are within reach "
                            ".ulimit -v.: allow more addresses, or take smaller stacks .*"));
  expect(ExitCode::bad_input, bounds + kRun);
  EXPECT_THAT(outcome(bounds + kRun), testing::HasSubstr("of addresses within reach (ulimit -v): take"));
}

TEST_F(ExitCodes, MoreThreadsThanTheMachineHasRoomForAreBadInput) {
  if (!kAddressesCanBeBounded) GTEST_SKIP() << "no bound on addresses under a sanitizer";
  const std::string command =
      "ulimit -v 1500000; ulimit -s 8192; penstock run --schedule 1f1b --pp-size 5000 --num-microbatches 1";
  expect(ExitCode::bad_input, command);
  EXPECT_THAT(outcome(command),
              testing::MatchesRegex("! penstock: 5000 ranks take a thread each, and stacks of 8.00 MiB leave "
                                    "room for .* take fewer ranks, or smaller stacks .*"));
}

TEST_F(ExitCodes, MoreProcessesThanTheMachineHasRoomForAreBadInput) {
  const std::string command =
      "ulimit -n 100; penstock run --backend cpu-process --schedule 1f1b --pp-size 400 --num-microbatches 1";
  expect(ExitCode::bad_input, command);
  EXPECT_THAT(outcome(command),
              testing::MatchesRegex("! penstock: 400 ranks take a process each, and .* open "
                                    "files in the one that starts them.*ulimit -Hn.*"));
  const std::string launched =
      "ulimit -n 100; RANK=0 WORLD_SIZE=400 MASTER_PORT=29517 penstock run --backend cpu-process --schedule "
      "1f1b --pp-size 400 --num-microbatches 1";
  expect(ExitCode::bad_input, launched);
  EXPECT_THAT(outcome(launched), testing::StartsWith("! penstock: rank 0 of 400 takes "));
}

TEST_F(ExitCodes, ANumberInJsonThatNoDoubleHoldsIsBadInput) {
  folder_.write("huge.json", R"({"schema_version": 1, "makespan_ns": 1e999, "entries": [1e999]})");
  folder_.write("model.json", R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
                                  "num_attention_heads": 8, "num_hidden_layers": 8, "vocab_size": 1e999})");
  folder_.write("scenario.json", R"({"model": {"stages": {"forward": "1e999 ms", "backward": "2 ms"}},
                                     "schedule": {"name": "1f1b", "stages": 2, "microbatches": 4}})");
  expect(ExitCode::bad_input, "penstock compare huge.json huge.json");
  expect(ExitCode::bad_input, "penstock check --baseline huge.json");
  const std::string model = "penstock model model.json --sequence 8";
  expect(ExitCode::bad_input, model);
  EXPECT_THAT(outcome(model), testing::HasSubstr("vocab_size: expected a whole number from 1 to 16777216, "
                                                 "got \"1e999\""));
  const std::string scenario = "penstock simulate scenario.json";
  expect(ExitCode::bad_input, scenario);
  EXPECT_THAT(outcome(scenario), testing::HasSubstr("the number is too large"));
}

// If a stream is closed, the next file that is opened gets the stream's descriptor number.
TEST_F(ExitCodes, WhatIsPrintedOnAClosedStreamGoesIntoNoFile) {
  const std::string command =
      "penstock sweep --schedule 1f1b,gpipe --pp-size 4 --num-microbatches 8 --resume points";
  expect(ExitCode::bad_input, command + " >&-");
  expect(ExitCode::ok, command + " 2>&-");
  expect(ExitCode::bad_input, command + " >&- 2>&- <&-");
  expect(ExitCode::ok, command);
}

/// Runs `penstock` with extensions and more arguments in a child process, and returns its exit status.
int status_of_a_run(const Extensions& extensions, std::vector<const char*> more) {
  const pid_t child = fork();
  if (child == 0) {
    if (freopen("/dev/null", "w", stderr) == nullptr) _exit(99);
    std::vector<const char*> arguments = {"penstock",  "run", "--schedule",         "1f1b",
                                          "--pp-size", "1",   "--num-microbatches", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    _exit(program_main(static_cast<int>(arguments.size()), arguments.data(), AddressSpace::unbounded,
                       extensions));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(ExitCodes, ThreeIsAFaultOfPenstock) {
  Extensions faulty;
  faulty.backends["cpu-thread"] = [](const auto&) -> tl::expected<std::optional<Result>, UserError> {
    throw std::logic_error("a fault");
  };
  EXPECT_EQ(status_of_a_run(faulty, {}), static_cast<int>(ExitCode::internal_error));
}

/// A family whose modules throw when they compute.
class ThrowingFamily : public OccupyFamily {
 public:
  explicit ThrowingFamily(const Experiment& experiment) : OccupyFamily(experiment, Jitter{}) {}

  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override {
    StageModules made = OccupyFamily::modules(rank, clock);
    const Fault fault = [](const std::stop_token&) { throw std::runtime_error("the weights are gone"); };
    for (auto& of_rank : made) {
      for (auto& module : of_rank) {
        if (module) module = std::make_unique<FaultyModule>(fault, 1);
      }
    }
    return made;
  }
};

TEST_F(ExitCodes, FourIsAModuleThatThrows) {
  Extensions faulty;
  faulty.network = [](const Experiment& experiment) { return std::make_unique<ThrowingFamily>(experiment); };
  const char* const model = "model={network: {mlp: {}}}";
  for (const char* const backend : {"cpu-thread", "cpu-process"}) {
    EXPECT_EQ(status_of_a_run(faulty, {"--set", model, "--backend", backend}),
              static_cast<int>(ExitCode::run_failed))
        << backend;
  }
}

TEST_F(ExitCodes, FourIsADeadlineThatPassed) {
  expect(ExitCode::run_failed, kRun + "--time-scale 10000 --deadline 0.05");
  expect(ExitCode::run_failed, kRun + "--time-scale 10000 --deadline 0.05 --backend cpu-process");
}

TEST_F(ExitCodes, FourIsAPeerThatWasKilled) {
  // The shell kills the first of the two processes that `penstock` has started.
  expect(ExitCode::run_failed,
         kRun + "--time-scale 2000 --backend cpu-process & run=$!; sleep 0.5; " +
             "read first rest < /proc/$run/task/$run/children; kill -9 $first; wait $run");
}

TEST_F(ExitCodes, FourIsAProcessThatWasSuspended) {
  // Each action is shorter than the deadline, but all actions together take a minute.
  const std::string command =
      "penstock run --schedule 1f1b --pp-size 2 --num-microbatches 4 --repeats 50 --time-scale 100 "
      "--deadline "
      "1 --backend cpu-process & run=$!; sleep 0.5; read first rest < /proc/$run/task/$run/children; kill "
      "-STOP $first; wait $run";
  const std::string printed = outcome(command);
  EXPECT_THAT(printed, testing::HasSubstr("suspended"));
  EXPECT_THAT(printed, testing::EndsWith("[exit 4]\n"));
}

// If a signal ends the program, a shell shows the status 128 plus the signal's number, as for any program.
TEST_F(ExitCodes, ASignalIsSeenByAShell) {
  const std::string held = "--time-scale 10000 & run=$!; sleep 0.3; kill -";
  for (const auto& [signal, status] : {std::pair("HUP", 129), std::pair("TERM", 143)}) {
    EXPECT_THAT(outcome(kRun + held + signal + " $run; wait $run; echo $?"),
                testing::StartsWith(std::to_string(status) + "\n"));
  }
}

TEST_F(ExitCodes, FourIsAPortThatIsBusyOrAPeerThatNeverComes) {
  // The system chooses a free port, and this test listens on it.
  const int held = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(held, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(held, 1), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(held, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string launched = "RANK=0 WORLD_SIZE=2 MASTER_PORT=" + std::to_string(ntohs(address.sin_port)) +
                               " " + kRun + "--backend cpu-process";
  expect(ExitCode::run_failed, launched);
  EXPECT_THAT(outcome(launched), testing::HasSubstr("Address already in use"));
  // Now the port is free. Rank 0 waits for rank 1, which never starts.
  close(held);
  expect(ExitCode::run_failed, launched);
  EXPECT_THAT(outcome(launched), testing::HasSubstr("for rank 1 to join"));
}

TEST_F(ExitCodes, SeventySevenIsAPartThatIsNotThere) {
  expect(ExitCode::not_available, "CUDA_VISIBLE_DEVICES= " + kRun + "--backend cuda-local");
}

// Exit codes of runs that fail.

TEST(Measuring, EachKindOfErrorHasAnExitCode) {
  EXPECT_EQ(exit_code_of(ErrorKind::bad_input), ExitCode::bad_input);
  EXPECT_EQ(exit_code_of(ErrorKind::check_failed), ExitCode::check_failed);
  EXPECT_EQ(exit_code_of(ErrorKind::run_failed), ExitCode::run_failed);
  EXPECT_EQ(exit_code_of(ErrorKind::not_available), ExitCode::not_available);
}

TEST(Measuring, ANetworkThatLacksAPartIsBadInput) {
  Experiment experiment;
  experiment.network.emplace();
  Extensions extensions;
  extensions.network = [](const Experiment&) { return tl::unexpected(std::string("conv-net: no width")); };
  const auto result = measure_by_backend(experiment, {}, {}, std::nullopt, extensions);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(result.error().message, "conv-net: no width");
}

}  // namespace
}  // namespace penstock
