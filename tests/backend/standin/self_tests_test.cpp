// Tests the self-tests that `penstock selftest` runs on two or more GPUs. Also tests the steps before a run
// over NCCL: a child counts the devices, and too few devices are an error.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cuda/self_test.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/nccl_run.hpp"
#include "bench/gpu/validation.hpp"
#include "bench/gpu/validation_rows.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/shape.hpp"
#include "tests/backend/standin/gpu_runs.hpp"
#include "tests/backend/standin/verdict.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Verdict;

std::string pairs_and_ring() {
  const auto test = self_test();
  if (!test) return test.error();
  return (test->all_right() ? "right\n" : "wrong\n") + to_text(*test);
}

std::string transfers_over_nccl() {
  const auto test = nccl_self_test();
  return test ? *test : test.error().message;
}

TEST(StandInSelfTest, PairsAndTheRingAreRight) {
  const Verdict verdict = controlled({.seed = 1, .devices = 2}, pairs_and_ring);
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
  EXPECT_THAT(verdict.answer,
              testing::StartsWith("right\n2 GPUs\n  0: stand-in\n  1: stand-in\ntimer: steps of "));
  EXPECT_THAT(verdict.answer,
              testing::HasSubstr(
                  "\n2 workers: 2 devices, the first of them stand-in; no partitions are needed: right\n"));
  EXPECT_THAT(verdict.answer, testing::HasSubstr("\n0 -> 1: ping "));
  EXPECT_THAT(verdict.answer, testing::HasSubstr("ring of 2: "));
}

TEST(StandInSelfTest, AWrongNumberIsSeen) {
  const Verdict verdict =
      controlled({.seed = 1, .devices = 2, .mutant = "copies are a byte short"}, pairs_and_ring);
  EXPECT_THAT(verdict.answer, testing::StartsWith("wrong\n")) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::ContainsRegex("WRONG: number [0-9]+ came as"));
}

TEST(StandInSelfTest, APipelineRunsOverNccl) {
  const Verdict verdict = controlled({.seed = 1, .devices = 3}, transfers_over_nccl);
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::StartsWith("NCCL: 1f1b on 3 ranks took ")) << to_text(verdict);
}

TEST(StandInSelfTest, OneDeviceIsCheckedByItself) {
  const Verdict verdict = controlled({.seed = 1, .devices = 1}, pairs_and_ring);
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::StartsWith("right\n1 GPU\n  0: stand-in\ntimer: steps of "))
      << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::HasSubstr("\nholds: at most "));
  EXPECT_THAT(verdict.answer, testing::HasSubstr("\n8 workers: 8 partitions of 16 SMs"));
  EXPECT_THAT(verdict.answer, testing::HasSubstr("\ncopies: 16 MiB from one to the other in "));
  EXPECT_THAT(verdict.answer, testing::HasSubstr("\nlaunches ahead: a stream takes 10"));
  EXPECT_THAT(verdict.answer, testing::Not(testing::HasSubstr("ring")));
}

TEST(StandInSelfTest, ACopyBetweenPartitionsThatIsWrongIsSeen) {
  const Verdict verdict =
      controlled({.seed = 1, .devices = 1, .mutant = "copies are a byte short"}, pairs_and_ring);
  EXPECT_THAT(verdict.answer, testing::StartsWith("wrong\n")) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::ContainsRegex("copies: number [0-9]+ came as .*: WRONG"));
}

TEST(StandInSelfTest, HoldsThatDoNotHoldAreSeen) {
  const Verdict verdict =
      controlled({.seed = 1, .devices = 1, .mutant = "holds end at once"}, pairs_and_ring);
  EXPECT_THAT(verdict.answer, testing::ContainsRegex("holds: 100.000 us took .* more: WRONG"))
      << to_text(verdict);
}

TEST(StandInSelfTest, ADriverWithoutPartitionsLacksThemAndIsNotWrong) {
  const Verdict verdict =
      controlled({.seed = 1, .devices = 1, .mutant = "the driver is too old"}, pairs_and_ring);
  EXPECT_THAT(verdict.answer, testing::StartsWith("right\n")) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::ContainsRegex("2 workers: .*cuDeviceGetDevResource.*: missing"));
}

TEST(StandInSelfTest, OneRankTriesNcclByItself) {
  const Verdict verdict = controlled({.seed = 1, .devices = 1}, [] {
    const auto checks = check_nccl_alone(0);
    return (all_right(checks) ? "right\n" : "wrong\n") + to_text(checks);
  });
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
  EXPECT_THAT(verdict.answer,
              testing::ContainsRegex("^right\nNCCL [0-9.]+ message to itself: 16 MiB in .*: right\n"));
  EXPECT_THAT(verdict.answer, testing::ContainsRegex("sum of one rank: 16 MiB in .*: right\n"));
  EXPECT_THAT(verdict.answer, testing::ContainsRegex("abort: returned after .*: right\n"));
}

TEST(StandInSelfTest, WithoutDevicesThereIsNothingToCheck) {
  EXPECT_THAT(controlled({.seed = 1, .devices = 1}, transfers_over_nccl).answer,
              testing::StartsWith("it needs two GPUs or more"));
  for (const auto& test : {pairs_and_ring, transfers_over_nccl}) {
    EXPECT_THAT(controlled({.seed = 1, .devices = 0}, test).answer, testing::HasSubstr("no GPU can be used"));
  }
}

TEST(StandInSelfTest, DevicesAreCountedByAChildUnlessCudaHasStartedHere) {
  const Verdict before = controlled({.seed = 1, .devices = 3}, [] {
    const auto count = cuda_device_count_by_child();
    return count ? fmt::format("{} with {}", count->devices, count->least_sms) : count.error();
  });
  EXPECT_EQ(before.answer, "3 with 132");
  const Verdict after = controlled({.seed = 1, .devices = 3}, [] {
    static_cast<void>(cuda_devices());
    const auto count = cuda_device_count_by_child();
    return count ? fmt::format("{} with {}", count->devices, count->least_sms) : count.error();
  });
  EXPECT_THAT(after.answer, testing::HasSubstr("cudaErrorInitializationError"));
}

std::string said_of(const Experiment& experiment, const std::optional<NcclPlace>& place) {
  const auto result = run_on_nccl(
      experiment, [](const FlatProgram&) { return LinkPace{}; }, {.warmup = 0, .repeats = 1},
      occupying(experiment), place);
  return result ? "good" : result.error().message;
}

TEST(StandInNcclRun, AsManyDevicesAsRanksAreNeeded) {
  const Experiment experiment = gpu_experiment("1f1b", 2, 2);
  EXPECT_THAT(controlled({.devices = 1}, [&] { return said_of(experiment, std::nullopt); }).answer,
              testing::HasSubstr("2 ranks need as many GPUs, this machine has 1"));
  const NcclPlace third{
      .process = {.rank = 1, .coordinator = {}}, .device = 2, .agent_store = {}, .store_prefix = ""};
  EXPECT_THAT(controlled({.devices = 2}, [&] { return said_of(experiment, third); }).answer,
              testing::HasSubstr("this host has 2 GPUs for process number 2 of the job"));
}

TEST(StandInNcclRun, AHostWithMoreProcessesThanGpusIsRefusedByEachOfThem) {
  const Experiment experiment = gpu_experiment("1f1b", 8, 8);
  for (const std::int32_t rank : {0, 7}) {
    const NcclPlace place{.process = {.rank = rank, .coordinator = {}},
                          .device = rank,
                          .on_host = 8,
                          .agent_store = {},
                          .store_prefix = ""};
    EXPECT_EQ(controlled({.devices = 4}, [&] { return said_of(experiment, place); }).answer,
              "nccl: this host has 4 GPUs for 8 processes of the job; start as many as there are GPUs, or "
              "place several on each with --ranks-per-gpu 2");
  }
}

/// Returns the verdict of a start of `ranks` ranks over NCCL, which opens a communicator in a stated time.
Verdict started(std::int32_t ranks, double opening_seconds, std::chrono::seconds deadline) {
  return controlled({.devices = ranks, .opening_seconds = opening_seconds}, [&] {
    const Experiment experiment = uniform_experiment("1f1b", {.stages = ranks, .microbatches = 2},
                                                     {.forward_ns = 20'000, .backward_ns = 40'000});
    return run_over_nccl(experiment, occupying(experiment), 1, {.deadline = deadline}).error;
  });
}

TEST(StandInStart, CommunicatorsOpenAtTheSameTime) {
  const Verdict verdict = started(64, 1, std::chrono::seconds(10));
  EXPECT_EQ(verdict.answer, "");
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
  EXPECT_LT(verdict.seconds, 5) << to_text(verdict);
}

// Two ranks have two communicators, and so 32 s.
TEST(StandInStart, TheDeadlineIsTheUsersOrGrowsWithTheCommunicators) {
  EXPECT_EQ(started(2, 31, std::chrono::seconds(0)).answer, "");
  EXPECT_THAT(started(2, 33, std::chrono::seconds(0)).answer, testing::HasSubstr("did not end within 32 s"));
  EXPECT_THAT(started(2, 31, std::chrono::seconds(12)).answer, testing::HasSubstr("did not end within 12 s"));
  EXPECT_EQ(started(2, 50, std::chrono::seconds(60)).answer, "");
}

TEST(StandInNcclRun, RanksThatShareAGpuNeedANewNcclAndEnoughGpus) {
  const auto said_with = [](std::int32_t ranks_per_gpu, const standin::Setting& setting) {
    return controlled(setting,
                      [&] {
                        const Experiment experiment = gpu_experiment("1f1b", 4, 4);
                        return run_over_nccl(experiment, occupying(experiment), 1,
                                             {.ranks_per_gpu = ranks_per_gpu})
                            .error;
                      })
        .answer;
  };
  EXPECT_EQ(said_with(4, {.nccl_version = 22809}),
            "nccl: --ranks-per-gpu 4 needs NCCL 2.30.0 or newer, this is NCCL 2.28.9");
  EXPECT_EQ(said_with(2, {}), "nccl: 4 ranks, 2 on each GPU, need 2 GPUs, this machine has 1");
}

// Kernels that wait for their peers hold SMs. Rank 1 of three has four communicators of 4 CTAs.
TEST(StandInNcclRun, CommunicatorsThatCouldHoldMoreThanHalfOfTheSmsAreRefused) {
  const Experiment experiment = gpu_experiment("1f1b", 3, 4);
  const auto said_with = [&](int sms, const RunOptions& options) {
    return controlled({.devices = 3, .sms = sms},
                      [&] { return run_over_nccl(experiment, occupying(experiment), 1, options).error; })
        .answer;
  };
  EXPECT_EQ(said_with(32, {}), "");
  EXPECT_EQ(
      said_with(31, {}),
      "nccl: one GPU has 4 ends of communicators with 4 CTAs each. They can hold 16 of its 31 SMs while "
      "they wait, which is more than half; --launch-order on starts kernels in the order of their "
      "launches instead");
  EXPECT_EQ(said_with(31, {.launch_order = true}), "");
}

TEST(StandInNcclRun, ALaunchersOneProcessRunsAPipelineOfOneStage) {
  const Experiment experiment = gpu_experiment("1f1b", 1, 2);
  const NcclPlace only{.process = {.rank = 0, .coordinator = {}},
                       .device = 0,
                       .agent_store = 29500,
                       .store_prefix = "penstock/0/"};
  const Verdict verdict = controlled({.devices = 1}, [&] { return said_of(experiment, only); });
  EXPECT_EQ(verdict.answer, "good") << to_text(verdict);
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
}

// Tests gpu_validation from its first call to its report. It makes the same calls as on a GPU, but the times
// are those of the stand-in. Its controls must fail if they should.

using standin::controlled;
using standin::Setting;
using standin::Verdict;

std::string contents_of(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Returns the verdict of a validation. Its answer is the result and the last printed line.
Verdict validated(const Setting& setting, const std::vector<std::int32_t>& workers,
                  const std::vector<GpuWorkload>& workloads, const std::string& file = "") {
  return controlled(setting, [&] {
    std::string last;
    const ValidationOutcome outcome = validate({.quick = true,
                                                .every_schedule = false,
                                                .workers = workers,
                                                .workloads = workloads,
                                                .file = file,
                                                .print = [&](const std::string& line) { last = line; }});
    return fmt::format("{} {}", static_cast<int>(outcome), last);
  });
}

const std::string kGood = fmt::format("{} ", static_cast<int>(ValidationOutcome::good));
const std::string kFailed = fmt::format("{} ", static_cast<int>(ValidationOutcome::failed));

/// Skips a test under the thread sanitizer. A validation starts thousands of threads, and the sanitizer
/// stores data for each of them.
#ifdef __SANITIZE_THREAD__
#define PENSTOCK_STARTS_MANY_THREADS() GTEST_SKIP() << "more than 20 GB under the thread sanitizer"
#else
#define PENSTOCK_STARTS_MANY_THREADS() static_cast<void>(0)
#endif

TEST(StandInValidation, PredictsAndMeasuresTheMatrixAndWritesItsReport) {
  PENSTOCK_STARTS_MANY_THREADS();
  const std::string file =
      (std::filesystem::temp_directory_path() / fmt::format("standin-{}.md", getpid())).string();
  const Verdict verdict = validated(
      {.seed = 1}, {2},
      {GpuWorkload::occupy, GpuWorkload::gemm, GpuWorkload::imbalanced, GpuWorkload::bandwidth}, file);
  SCOPED_TRACE(to_text(verdict));
  EXPECT_EQ(verdict.death, "");
  EXPECT_TRUE(verdict.defects.empty());
  EXPECT_THAT(verdict.answer, testing::StartsWith(kGood));
  EXPECT_EQ(verdict.timed_waits, 0U);
  EXPECT_EQ(verdict.timed_allocations, 0U);
  const std::string table = contents_of(file);
  EXPECT_THAT(table, testing::HasSubstr("stand-in; 1 warm-ups and the median of 5 runs each"));
  for (const char* row :
       {"| occupy | gpipe | 2 | 4 | paced |", "| gemm | interleaved | 2 | 4 | fast |",
        "| gemm, imbalanced | zb-h1 | 2 | 4 | paced |", "| bandwidth | 1f1b-rr | 2 | 4 | fast |"}) {
    EXPECT_THAT(table, testing::HasSubstr(row));
  }
  const std::string csv = contents_of(file + ".csv");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 3 * 2 * 5 + 5) << csv;
  std::filesystem::remove(file);
  std::filesystem::remove(file + ".csv");
}

TEST(StandInValidation, EveryMessageCarriesSixteenMebibytes) {
  const Verdict verdict = validated({.seed = 2}, {2}, {GpuWorkload::occupy});
  // There are 6 runs with both kinds of links. Four schedules have 4 + 4 messages, and interleaved has (4 +
  // 4) * 3.
  const std::uint64_t messages = 2 * 6 * (4 * 8 + 24);
  EXPECT_GE(verdict.copied_bytes, messages * static_cast<std::uint64_t>(kNominalMessage)) << to_text(verdict);
}

// This control must fail, because the kernels that emulate the links take no time here.
TEST(StandInValidation, LinksThatAreNotHeldBackAreFound) {
  const Verdict verdict = validated({.seed = 1, .mutant = "links take no time"}, {2}, {GpuWorkload::occupy});
  EXPECT_THAT(verdict.answer, testing::StartsWith(kFailed + "control failed: occupy, ")) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::HasSubstr("is measured to take"));
}

// Partitions slow each other's products down, so costs must be measured while all workers are busy.
TEST(StandInValidation, CostsOfAnIdleGpuAreFound) {
  PENSTOCK_STARTS_MANY_THREADS();
  const Verdict busy = validated({.seed = 4}, {2}, {GpuWorkload::gemm});
  EXPECT_THAT(busy.answer, testing::StartsWith(kGood)) << to_text(busy);
  const Verdict idle =
      validated({.seed = 4, .mutant = "costs are those of an idle GPU"}, {2}, {GpuWorkload::gemm});
  EXPECT_THAT(idle.answer, testing::StartsWith(kFailed)) << to_text(idle);
}

TEST(StandInValidation, ACublasThatIsNotToldItsSmsIsFound) {
  PENSTOCK_STARTS_MANY_THREADS();
  const Verdict verdict =
      validated({.seed = 1, .mutant = "cuBLAS is not told its SMs"}, {2}, {GpuWorkload::gemm});
  EXPECT_THAT(to_text(verdict),
              testing::HasSubstr("cuBLAS chooses kernels for more SMs than its stream has"));
}

TEST(StandInValidation, FourWorkersAreValidatedAsWell) {
  PENSTOCK_STARTS_MANY_THREADS();
  const Verdict verdict = validated({.seed = 3}, {4}, {GpuWorkload::occupy});
  EXPECT_THAT(verdict.answer, testing::StartsWith(kGood)) << to_text(verdict);
  EXPECT_TRUE(verdict.defects.empty()) << to_text(verdict);
}

TEST(StandInValidation, WithoutADeviceItSaysSo) {
  const Verdict verdict = validated({.seed = 1, .devices = 0}, {2}, {GpuWorkload::occupy});
  EXPECT_THAT(verdict.answer, testing::HasSubstr("skipped: no GPU can be used: ")) << to_text(verdict);
}

}  // namespace
}  // namespace penstock
