// gpu_validation from its first call to its report: what a GPU is asked is asked here, and the times are the
// stand-in's. Its controls fail where they must.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/gpu/nominal_costs.hpp"
#include "bench/gpu/validation.hpp"
#include "tests/backend/standin/verdict.hpp"

namespace penstock {
namespace {

using standin::controlled;
using standin::Setting;
using standin::Verdict;

std::string contents_of(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The outcome and the last line that was printed.
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

/// A validation starts thousands of threads, of each of which the thread sanitizer remembers what it did.
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
  // 6 runs of four schedules, of 4 + 4 messages each, and of interleaved with (4 + 4) * 3; both links.
  const std::uint64_t messages = 2 * 6 * (4 * 8 + 24);
  EXPECT_GE(verdict.copied_bytes, messages * static_cast<std::uint64_t>(kNominalMessage)) << to_text(verdict);
}

// The control that must fail: the links are held back by kernels, and these kernels do not hold.
TEST(StandInValidation, LinksThatAreNotHeldBackAreFound) {
  const Verdict verdict = validated({.seed = 1, .mutant = "links take no time"}, {2}, {GpuWorkload::occupy});
  EXPECT_THAT(verdict.answer, testing::StartsWith(kFailed + "control failed: occupy, ")) << to_text(verdict);
  EXPECT_THAT(verdict.answer, testing::HasSubstr("is measured to take"));
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
