// The table of exit codes, in the README and in truth: what scripts rely on.

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/extensions.hpp"
#include "cli/outcome.hpp"
#include "cli/program_main.hpp"
#include "tests/cli/transcript.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/source_path.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class ExitCodes : public testing::Test {
 protected:
  std::string outcome(const std::string& command) const { return outcome_of(command, folder_.path()); }
  /// The status that the command ends with, as its transcript shows it.
  void expect(ExitCode code, const std::string& command) const {
    const std::string printed = outcome(command);
    std::smatch found;
    const bool failed = std::regex_search(printed, found, std::regex("\\[exit ([0-9]+)\\]"));
    EXPECT_EQ(failed ? std::stoi(found[1]) : 0, static_cast<int>(code)) << "$ " << command << "\n" << printed;
  }

  /// Sanitizers take more addresses than there is memory before anything else runs.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kAddressesCanBeBounded = false;
#else
  static constexpr bool kAddressesCanBeBounded = true;
#endif

  ScratchFolder folder_;
};

const std::string kRun = "penstock run --schedule 1f1b --pp-size 2 --num-microbatches 4 --repeats 1 ";

TEST_F(ExitCodes, TheReadmeListsThemAllAndNoOther) {
  std::ifstream readme(source_path("README.md"));
  std::vector<int> listed;
  std::smatch found;
  for (std::string line; std::getline(readme, line);) {
    if (std::regex_search(line, found, std::regex("^\\| ([0-9]+) \\| (ok|a |bad )")))
      listed.push_back(std::stoi(found[1]));
  }
  const std::vector<int> codes = {0, 1, 2, 3, 4, 77};
  EXPECT_EQ(listed, codes);
  for (const ExitCode code : {ExitCode::ok, ExitCode::check_failed, ExitCode::bad_input,
                              ExitCode::internal_error, ExitCode::run_failed, ExitCode::not_available}) {
    EXPECT_NE(std::ranges::find(codes, static_cast<int>(code)), codes.end());
  }
}

TEST_F(ExitCodes, ZeroIsOk) { expect(ExitCode::ok, kRun); }

TEST_F(ExitCodes, OneIsACheckThatFailed) {
  // Rank 0 sends F0 first, rank 1 waits for F1 first: with one queue a rank neither goes on.
  folder_.write("hangs.psched",
                "penstock program 1\nschedule crossed\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
                "rank 0: 0F0 0F1 0SEND_F0 0SEND_F1\nrank 1: 1RECV_F1 1RECV_F0 1F1 1F0\n");
  expect(ExitCode::check_failed, "penstock check hangs.psched --channel rank");
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
              testing::MatchesRegex("! penstock: 1.28e\\+07 compute actions take at least 8.89 GiB of "
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
              testing::MatchesRegex("! penstock: the grid has 10000000 points, which take at least .* of "
                                    "memory, and .* are within reach: make its lists shorter.*"));
}

TEST_F(ExitCodes, ProcessesWithoutAddressesForTheirThreadsAreBadInput) {
  if (!kAddressesCanBeBounded) GTEST_SKIP() << "no bound on addresses under a sanitizer";
  // Stacks that are larger than the bound, which the program itself is far below.
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
  folder_.write("model.json", R"({"model_type": "llama", "hidden_size": 1e999})");
  folder_.write("scenario.json",
                R"({"model": {"stages": {"forward": 1e999}}, "schedule": {"name": "1f1b"}})");
  expect(ExitCode::bad_input, "penstock compare huge.json huge.json");
  expect(ExitCode::bad_input, "penstock check --baseline huge.json");
  expect(ExitCode::bad_input, "penstock model model.json --sequence 8");
  expect(ExitCode::bad_input, "penstock simulate scenario.json");
}

// The number of a closed stream goes to the next file that is opened.
TEST_F(ExitCodes, WhatIsPrintedOnAClosedStreamGoesIntoNoFile) {
  const std::string command =
      "penstock sweep --schedule 1f1b,gpipe --pp-size 4 --num-microbatches 8 --resume points";
  expect(ExitCode::bad_input, command + " >&-");
  expect(ExitCode::ok, command + " 2>&-");
  expect(ExitCode::bad_input, command + " >&- 2>&- <&-");
  expect(ExitCode::ok, command);
}

TEST_F(ExitCodes, ThreeIsAFaultOfPenstock) {
  const pid_t child = fork();
  // In a process of its own, whose end is the status of a program.
  if (child == 0) {
    Extensions faulty;
    faulty.backends["cpu-thread"] = [](const auto&) -> tl::expected<std::optional<Result>, RunError> {
      throw std::logic_error("a fault");
    };
    if (freopen("/dev/null", "w", stderr) == nullptr) _exit(99);
    const std::array arguments = {"penstock",  "run", "--schedule",         "1f1b",
                                  "--pp-size", "1",   "--num-microbatches", "1"};
    _exit(program_main(static_cast<int>(arguments.size()), arguments.data(), AddressSpace::unbounded,
                       std::move(faulty)));
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::internal_error));
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

TEST_F(ExitCodes, FourIsAPortThatIsBusyOrAPeerThatNeverComes) {
  // A port that something else listens on, found by letting the system choose one.
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
  // Now the port is free, and rank 0 waits for a rank 1 that nobody starts.
  close(held);
  expect(ExitCode::run_failed, launched);
}

TEST_F(ExitCodes, SeventySevenIsAPartThatIsNotThere) {
  expect(ExitCode::not_available, "CUDA_VISIBLE_DEVICES= " + kRun + "--backend cuda-local");
}

}  // namespace
}  // namespace penstock
