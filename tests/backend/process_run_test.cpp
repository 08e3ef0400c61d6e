// Tests that `cpu-process` gives results of experiments, and that it reads the variables of launchers. Also
// tests the resources that a run needs, and the errors if they are missing.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/task_room.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/process_run.hpp"
#include "report/result/result.hpp"
#include "scenarios/host/process_limits.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/process_fixture.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

Experiment small_experiment() {
  return uniform_experiment("1f1b", {.stages = 2, .microbatches = 4},
                            {.forward_ns = 2'000'000, .backward_ns = 2'000'000});
}

TEST(ProcessRun, AResultIsAMeasurementOfTheVeryProgramThatWasPredicted) {
  const Experiment experiment = small_experiment();
  const auto result =
      run_on_processes(experiment, free_links, {.warmup = 1, .repeats = 3}, OccupyFamily(experiment, {}), {});
  ASSERT_TRUE(result) << result.error().message;
  const auto predicted = simulate(experiment, {});
  ASSERT_TRUE(predicted);
  EXPECT_EQ((*result)->kind, ResultKind::measured);
  EXPECT_EQ((*result)->engine, "cpu-process");
  EXPECT_EQ((*result)->channel, "directed");
  EXPECT_EQ((*result)->program, predicted->program);
  EXPECT_EQ((*result)->timeline.spans.size(), predicted->timeline.spans.size());
  EXPECT_GE((*result)->makespan_ns, predicted->makespan_ns);
}

TEST(ProcessRun, ReportsEachRunThatHasFinished) {
  const Experiment experiment = small_experiment();
  std::vector<std::string> reports;
  RunOptions options{.warmup = 1, .repeats = 2};
  options.progress = [&](std::size_t done, std::size_t total) {
    reports.push_back(std::to_string(done) + " of " + std::to_string(total));
  };
  ASSERT_TRUE(run_on_processes(experiment, free_links, options, OccupyFamily(experiment, {}), {}));
  EXPECT_EQ(reports, (std::vector<std::string>{"1 of 3", "2 of 3", "3 of 3"}));
}

TEST(ProcessRun, TimesAreDividedByTheScaleAtWhichTheyWereHeld) {
  const Experiment experiment = small_experiment();
  const auto begin = std::chrono::steady_clock::now();
  const auto result = run_on_processes(experiment, free_links, {.warmup = 0, .repeats = 1, .time_scale = 3},
                                       OccupyFamily(experiment, {}), {});
  const auto spent = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GE((*result)->makespan_ns, 20'000'000);
  EXPECT_LE(std::chrono::nanoseconds(3 * (*result)->makespan_ns), spent) << "in the time of the scenario";
}

/// Returns how one rank of two ends if the other rank never comes.
std::string words_alone(std::int32_t rank, std::chrono::milliseconds deadline) {
  const std::uint16_t port = HeldPort().port();
  return RankProcess([&] {
           const Experiment experiment = small_experiment();
           const auto result =
               run_on_processes(experiment, free_links, {.warmup = 0, .repeats = 1, .deadline = deadline},
                                OccupyFamily(experiment, {}), place_of(rank, port));
           return result ? "ended well" : result.error().message;
         })
      .words();
}

TEST(ProcessRun, TheDeadlineThatIsAskedForRulesBeforeLaunchedRanksHaveJoined) {
  EXPECT_EQ(words_alone(0, std::chrono::milliseconds(1500)),
            "rank 1: the start: waited 1.5 s for rank 1 to join; rank 0 waits for it there");
  EXPECT_TRUE(words_alone(1, std::chrono::milliseconds(1500))
                  .starts_with("rank 1: the start: waited 1.5 s for rank 0 to join it: cannot connect to"));
  EXPECT_EQ(words_alone(0, std::chrono::milliseconds(50)),
            "rank 1: the start: waited 1 s for rank 1 to join; rank 0 waits for it there");
}

TEST(ProcessRun, WhatSocketsCannotDoIsRefused) {
  const auto refusal_of = [](const ChannelOptions& channels) {
    Experiment experiment = small_experiment();
    experiment.channels = channels;
    const auto result = run_on_processes(experiment, free_links, {}, OccupyFamily(experiment, {}), {});
    return !result && result.error().kind == ErrorKind::check_failed ? result.error().message : "accepted";
  };
  EXPECT_EQ(refusal_of({.blocking = Blocking::each}),
            "the sockets transport has no blocking channels; leave that out, or take cpu-thread");
  EXPECT_EQ(refusal_of({.capacity = 2}),
            "the sockets transport has no bounded channels (capacity); leave that out, or take cpu-thread");
  EXPECT_EQ(refusal_of({.eager_bytes = 64}),
            "the sockets transport has no eager messages; leave that out, or take cpu-thread");
}

TEST(ProcessRun, AProgramThatHangsOnTheTransportIsRefused) {
  // Rank 1 waits for F1 before it sends the gradient for which rank 0 waits before F1.
  Experiment experiment = small_experiment();
  experiment.program = read_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1 0STEP\n"
      "rank 1: 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1STEP\n");
  experiment.channels.model = ChannelModel::boundary;
  const auto result = run_on_processes(experiment, free_links, {}, OccupyFamily(experiment, {}), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::check_failed);
  EXPECT_TRUE(
      result.error().message.starts_with("the program hangs on the sockets transport (directed channels):"))
      << result.error().message;
}

TEST(Transports, TheSocketOneIsDeclaredDirectedUnlimitedAndWithoutEagerMessages) {
  ASSERT_NE(find_transport("sockets"), nullptr);
  EXPECT_EQ(find_transport("sockets")->channels, ChannelOptions{});
}

// --- launchers ------------------------------------------------------------------------------------

tl::expected<std::optional<LaunchedProcess>, std::string> launched(
    const std::map<std::string, std::string>& variables) {
  return launched_process([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

/// Returns "rank 1 of 4 at 127.0.0.1:29500", "no launcher", or the error.
std::string words_of(const std::map<std::string, std::string>& variables) {
  const auto process = launched(variables);
  if (!process) return process.error();
  if (!*process) return "no launcher";
  return "rank " + std::to_string((*process)->place.rank) + " of " + std::to_string((*process)->world_size) +
         " at " + to_text((*process)->place.coordinator);
}

TEST(LaunchEnvironment, WithoutALauncherThereIsNoPlace) {
  EXPECT_EQ(words_of({}), "no launcher");
  EXPECT_EQ(words_of({{"MASTER_PORT", "29500"}}), "no launcher");
}

TEST(LaunchEnvironment, TorchrunsVariablesPlaceTheProcessBesideItsStore) {
  EXPECT_EQ(
      words_of({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.1.2.3"}, {"MASTER_PORT", "29500"}}),
      "rank 1 of 4 at 10.1.2.3:29500");
  EXPECT_EQ(words_of({{"RANK", "1"},
                      {"WORLD_SIZE", "4"},
                      {"MASTER_PORT", "29500"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
            "rank 1 of 4 at 127.0.0.1:29501");
  EXPECT_EQ(words_of({{"RANK", "1"},
                      {"WORLD_SIZE", "4"},
                      {"MASTER_PORT", "29500"},
                      {"PENSTOCK_PORT", "5000"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
            "rank 1 of 4 at 127.0.0.1:5000");
}

TEST(LaunchEnvironment, AnAgentsStoreIsOnTheMastersPortWhereItSaysSo) {
  const auto port_in = [](const std::map<std::string, std::string>& variables) {
    return agent_store_port([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(port_in({{"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}), 29500);
  EXPECT_EQ(port_in({{"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}}), std::nullopt);
  EXPECT_EQ(port_in({{"MASTER_PORT", "29500"}}), std::nullopt);
  EXPECT_EQ(port_in({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), std::nullopt);
}

TEST(LaunchEnvironment, BehindTheLastPortThereIsNone) {
  EXPECT_EQ(port_after({.port = 65534}), 65535);
  EXPECT_EQ(
      port_after({.address = "10.1.2.3", .port = 65535}).error(),
      "rank 0 needs the port after 10.1.2.3:65535's, too, and 65535 is the last one: expected a port of at "
      "most 65534 in PENSTOCK_PORT or MASTER_PORT");
}

TEST(LaunchEnvironment, MpirunAndSrunMapOntoThem) {
  EXPECT_EQ(words_of({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"MASTER_PORT", "7000"}}),
            "rank 0 of 2 at 127.0.0.1:7000");
  EXPECT_EQ(words_of({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"MASTER_PORT", "7000"}}),
            "rank 3 of 4 at 127.0.0.1:7000");
  EXPECT_EQ(words_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}), "no launcher");
}

TEST(LaunchEnvironment, ALauncherOfAnotherSizeThanTheProgramIsRefused) {
  const Environment environment = [](const char* name) {
    const std::string_view wanted = name;
    if (wanted == "RANK") return "1";
    if (wanted == "WORLD_SIZE") return "4";
    return wanted == "MASTER_PORT" ? "7000" : nullptr;
  };
  EXPECT_EQ(launched_place(environment, 4)->value().rank, 1);
  const auto refused = launched_place(environment, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), "the launcher started 4 processes but the program has 2 ranks; start as many");
}

TEST(LaunchEnvironment, ASecretThatCanBeGuessedIsRefused) {
  const auto secret_of = [](const std::string& given) {
    const auto process =
        launched({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "1"}, {"PENSTOCK_SECRET", given}});
    return process ? "taken: " + (*process)->place.secret : process.error();
  };
  const std::string expected =
      "PENSTOCK_SECRET: expected 16 characters or more that cannot be guessed (openssl rand -hex 32), got ";
  EXPECT_EQ(secret_of("short"), expected + "5");
  EXPECT_EQ(secret_of(""), expected + "0");
  EXPECT_EQ(secret_of("fifteen letters"), expected + "15");
  EXPECT_EQ(secret_of("sixteen letters!"), "taken: sixteen letters!");
  const auto without = launched({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ((*without)->place.secret, "") << "rank 0 leaves one";
}

TEST(LaunchEnvironment, WhatIsMissingOrWrongIsNamed) {
  EXPECT_EQ(words_of({{"RANK", "1"}, {"MASTER_PORT", "1"}}),
            "RANK is set, as by torchrun, but WORLD_SIZE is not: say by it how many processes there are, or "
            "unset RANK to let this process start the others");
  EXPECT_EQ(words_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "1"}}),
            "RANK: expected a number from 0 to 3, got \"4\"");
  EXPECT_EQ(words_of({{"RANK", "0\n::error::"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "1"}}),
            "RANK: expected a number from 0 to 3, got \"0\\x0a::error::\"");
  EXPECT_EQ(words_of({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "http"}}),
            "MASTER_PORT: expected a number from 1 to 65535, got \"http\"");
  EXPECT_EQ(
      words_of({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
      "OMPI_COMM_WORLD_RANK is set, as by mpirun, but MASTER_PORT is not: give all ranks the same free port "
      "by it, or unset OMPI_COMM_WORLD_RANK to let this process start the others");
}

// Tests the resources that a run in processes needs, and the errors if they are missing.

constexpr ProcessNeed kHundredRanks = {.ranks = 100, .descriptors = 150, .of_each = Bytes{1} << 20};

TEST(ProcessRoom, ProcessesThatMayNotBeStartedAreRefused) {
  ProcessRoom room{.tasks = TaskRoom{.left = 200, .bound = "kernel.pid_max"}};
  EXPECT_FALSE(processes_refusal(kHundredRanks, room));
  room.tasks->left = 199;
  EXPECT_EQ(processes_refusal(kHundredRanks, room),
            "100 ranks take a process of two threads each, and 199 more threads may be started here "
            "(kernel.pid_max): take fewer ranks, or allow more");
}

TEST(ProcessRoom, FilesThatMayNotBeOpenedAreRefused) {
  EXPECT_FALSE(processes_refusal(kHundredRanks, {.descriptors = 150}));
  EXPECT_EQ(processes_refusal(kHundredRanks, {.descriptors = 149}),
            "100 ranks take a process each, and 150 open files in the one that starts them, which may open "
            "149 more: take fewer ranks, or allow more open files (ulimit -Hn)");
}

TEST(ProcessRoom, ProcessesThatMemoryCannotHoldAreRefused) {
  EXPECT_FALSE(processes_refusal(kHundredRanks, {.memory = Bytes{100} << 20}));
  EXPECT_EQ(processes_refusal(kHundredRanks, {.memory = Bytes{99} << 20}),
            "100 processes, one for each rank, take at least 100.00 MiB of memory, and 99.00 MiB are within "
            "reach: take fewer ranks, microbatches or iterations, or --backend cpu-thread");
}

TEST(ProcessRoom, ThreadsWithoutAddressesForTheirStacksAreRefused) {
  const ProcessNeed need = {.ranks = 4, .of_each = Bytes{1} << 20, .stacks_of_each = Bytes{8} << 20};
  EXPECT_FALSE(processes_refusal(need, {.addresses = Bytes{9} << 20}));
  EXPECT_EQ(
      processes_refusal(need, {.addresses = (Bytes{9} << 20) - 1}),
      "4 ranks take a process each, of at least 9.00 MiB of addresses, 8.00 MiB of them for stacks of "
      "threads, and 9.00 MiB are within reach (ulimit -v): allow more addresses, or take smaller stacks "
      "(ulimit -s 512), fewer microbatches or iterations");
}

TEST(ProcessRoom, WhereNothingIsKnownNothingIsRefused) {
  EXPECT_FALSE(processes_refusal({.ranks = 1'000'000,
                                  .descriptors = 1'000'000,
                                  .of_each = Bytes{1} << 40,
                                  .stacks_of_each = Bytes{1} << 40},
                                 {}));
}

Program pipeline_of(std::int32_t stages) { return *generate("1f1b", {.stages = stages, .microbatches = 4}); }

FlatProgram flat_of(const Program& program) {
  const Program placed = lowered(program);
  return flatten(placed, free_costs(placed), {.channels = {}, .iterations = placed.iterations});
}

/// Runs in a process that may open only `more_files` more files. Returns the status: 0, or 1 if the files are
/// not enough.
int status_with(const FaultyRun& run, std::int64_t more_files) {
  const pid_t tight = fork();  // a child process, because a lowered hard limit cannot be raised again
  if (tight == 0) {
    close_range(3, ~0U, 0);  // closes all other files that this process has inherited
    const auto allowed = static_cast<rlim_t>(3 + more_files);
    const rlimit limit = {.rlim_cur = allowed, .rlim_max = allowed};
    setrlimit(RLIMIT_NOFILE, &limit);
    const auto ended = execute_in_processes(run.execution(std::chrono::seconds(20)));
    const bool too_few = !ended && ended.error().message.find("Too many open files") != std::string::npos;
    _exit(ended ? 0 : too_few ? 1 : 2);
  }
  int status = 0;
  waitpid(tight, &status, 0);
  return status;
}

TEST(ProcessRoom, DescriptorsAreCountedAsTheyAreOpened) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer asks over a pipe what memory can be read, and finds faults where it gets none";
#endif
  for (const Program& program :
       {pipeline_of(12), *generate("interleaved", {.stages = 6, .microbatches = 6, .virtual_stages = 2}),
        *generate("data-parallel", {.stages = 1, .microbatches = 9, .replicas = {9}}),
        *generate("1f1b", {.stages = 3, .microbatches = 8, .data_parallel = 4})}) {
    const FaultyRun run(program, 0);
    const ProcessNeed need = process_need(flat_of(program));
    EXPECT_EQ(need.ranks, program.rank_count());
    EXPECT_EQ(status_with(run, need.descriptors), 0) << program.schedule;
    // This is the need without the descriptors for the coordinator's loop, minus one.
    EXPECT_EQ(WEXITSTATUS(status_with(run, need.descriptors - 17)), 1) << program.schedule;
  }
}

TEST(ProcessRoom, APipelinesProcessesTakeNoMoreOfAPairOfRanksEach) {
  const std::int64_t of_100 = process_need(flat_of(pipeline_of(100))).descriptors;
  const std::int64_t of_200 = process_need(flat_of(pipeline_of(200))).descriptors;
  EXPECT_EQ(of_200 - of_100, 100);
}

TEST(ProcessRoom, ALaunchedRankThatCannotMeetTheOthersSaysSo) {
  const FlatProgram flat = flat_of(pipeline_of(100));
  EXPECT_FALSE(launched_refusal(flat, 0, {.descriptors = 400}));
  EXPECT_EQ(launched_refusal(flat, 0, {.descriptors = 200}),
            "rank 0 of 100 takes 245 open files, to be connected with the others, and may open 200 more: "
            "allow more open files (ulimit -Hn), or take fewer ranks");
  EXPECT_FALSE(launched_refusal(flat, 1, {.descriptors = 200})) << "it has two peers and a coordinator";
}

TEST(ProcessRoom, ALaunchedRankThatHasNoAddressesForItsThreadsSaysSo) {
  const FlatProgram flat = flat_of(pipeline_of(2));
  const Bytes stack = stack_of_a_thread();
  const Bytes memory = process_need(flat).of_each;
  EXPECT_FALSE(launched_refusal(flat, 1, {.addresses = memory + stack}));
  EXPECT_TRUE(launched_refusal(flat, 1, {.addresses = memory + stack - 1})
                  .value_or("")
                  .starts_with("rank 1 of 2 takes at least "));
  EXPECT_FALSE(launched_refusal(flat, 0, {.addresses = memory + 2 * stack}));
  EXPECT_TRUE(launched_refusal(flat, 0, {.addresses = memory + 2 * stack - 1})) << "it coordinates, too";
}

TEST(ProcessRoom, OfThisMachineIsSomeRoom) {
  const ProcessRoom room = process_room();
  EXPECT_GT(room.descriptors.value_or(1), 0);
  EXPECT_GT(room.tasks ? room.tasks->left : 1, 0);
}

}  // namespace
}  // namespace penstock
