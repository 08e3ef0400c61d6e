// Tests that reports of Nsight Systems give what traces of PyTorch's profiler give, and that damaged files
// are refused. The reports in tests/sim/traces have the actions of the traces beside them: 1F1B on two ranks,
// each action as two kernels. They have pages of 512 bytes, so that tables have several pages and a name
// continues on others.

#include "sim/autopsy/trace_formats.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/ir/action.hpp"
#include "sim/autopsy/sqlite_file.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string content_of(const std::string& name) {
  auto text = read_trace_file(source_path("tests/sim/traces/" + name), name);
  EXPECT_TRUE(text) << text.error();
  return text.value_or("");
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST(NsysReport, HasTheActionsOfTheTraceOfTheProfiler) {
  constexpr Ns kBegin = 1'700'000'000'000'000'000;
  for (const int rank : {0, 1}) {
    const std::string name = fmt::format("nsys_rank_{}.sqlite", rank);
    const auto report = read_nsys(content_of(name + ".gz"), name);
    ASSERT_TRUE(report) << report.error();
    const std::string trace_name = fmt::format("trace_rank_{}.json", rank);
    const auto trace = read_kineto(content_of(trace_name), trace_name);
    ASSERT_TRUE(trace) << trace.error();
    EXPECT_EQ(report->rank, rank);
    ASSERT_EQ(report->rows.size(), trace->rows.size());
    for (std::size_t i = 0; i < trace->rows.size(); ++i) {
      EXPECT_EQ(report->rows[i].actions, trace->rows[i].actions);
      EXPECT_EQ(report->rows[i].start_ns, kBegin + trace->rows[i].start_ns)
          << "from kernels, not from the launch";
      EXPECT_EQ(report->rows[i].end_ns, kBegin + trace->rows[i].end_ns);
    }
    ASSERT_TRUE(report->gpu);
    EXPECT_EQ(report->gpu->window_ns, trace->rows.back().end_ns - trace->rows.front().start_ns);
  }
}

TEST(NsysReport, SaysWhatIsMissing) {
  const std::string bytes = content_of("nsys_rank_0.sqlite.gz");
  const auto nameless = read_nsys(bytes, "report.sqlite");
  ASSERT_FALSE(nameless);
  EXPECT_EQ(nameless.error(),
            "report.sqlite: expected the rank in the name of the file, such as rank_3.sqlite, got none");
  const auto other = read_nsys(replaced(replaced(bytes, "NVTX_EVENTS", "NVTX_THINGS"),
                                        "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_KOBOLD"),
                               "rank_0.sqlite");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error(), HasSubstr("record with nsys profile --trace=cuda,nvtx"));
  const auto joined = read_nsys(content_of("nsys_rank_2.sqlite.gz"), "rank_2.sqlite");
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error(),
            "rank_2.sqlite: expected the report of one rank, got 2 processes: record each rank by itself, "
            "with nsys "
            "profile -o rank_%q{RANK}");
}

TEST(SqliteFile, RowsHaveTheirColumnsByName) {
  const std::string bytes = content_of("nsys_rank_0.sqlite.gz");
  const auto file = SqliteFile::open(bytes);
  ASSERT_TRUE(file) << file.error();
  constexpr std::array<std::string_view, 3> kColumns = {"VALUE", "id", "no_such_column"};
  std::size_t rows = 0;
  std::size_t longest = 0;
  ASSERT_TRUE(file->each_row("StringIds", kColumns, [&](std::span<const SqliteValue> row) {
    ++rows;
    longest = std::max(longest, row[0].text.value_or("").size());
    if (row[1].number == 2) {
      EXPECT_EQ(row[0].text, "sm90_gemm") << "id is the key of the row";
    }
    EXPECT_FALSE(row[2].number || row[2].text);
  }));
  EXPECT_EQ(rows, 65U);
  EXPECT_EQ(longest, std::string("ampere_").size() + 60 * std::string("long_name_of_a_kernel_").size());
  std::vector<std::int64_t> numbers;
  constexpr std::array<std::string_view, 2> kClock = {"utcEpochNs", "utcTime"};
  ASSERT_TRUE(file->each_row("TARGET_INFO_SESSION_START_TIME", kClock, [&](std::span<const SqliteValue> row) {
    numbers.push_back(row[0].number.value_or(0));
    EXPECT_EQ(row[1].text, "2023-11-14 22:13:20");
  }));
  EXPECT_THAT(numbers, ElementsAre(1'700'000'000'000'000'000));
}

TEST(SqliteFile, DamagedFilesEnd) {
  const std::string bytes = content_of("nsys_rank_0.sqlite.gz");
  for (std::size_t size = 0; size < bytes.size(); size += 101) {
    const auto cut = read_nsys(bytes.substr(0, size), "rank_0.sqlite");
    EXPECT_FALSE(cut) << size << " bytes";
  }
  // Each byte with other values, so that lengths, places and page numbers are wrong.
  for (std::size_t at = 16; at < bytes.size(); at += 3) {
    for (const char value : {'\0', '\x05', '\x7f', '\xff'}) {
      std::string changed = bytes;
      changed[at] = value;
      const auto read = read_nsys(changed, "rank_0.sqlite");
      EXPECT_LT(read ? read->rows.size() : 0, 100U);
    }
  }
}

}  // namespace
}  // namespace penstock
