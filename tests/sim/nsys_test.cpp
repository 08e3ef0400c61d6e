// Tests that reports of Nsight Systems give the same result as traces of PyTorch's profiler, and that damaged
// files are refused. The reports in tests/sim/traces have the same actions as the traces in that folder: 1F1B
// on two ranks, with two kernels for each action. Their pages have 512 bytes. Tables therefore have several
// pages, and one name continues on another page.

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
#include <sqlite3.h>

#include "schedules/ir/action.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

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

/// Returns the bytes of the SQLite file that these statements make.
std::string database_of(const std::string& statements) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(":memory:", &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  sqlite3_int64 size = 0;
  unsigned char* bytes = sqlite3_serialize(database, "main", &size, 0);
  std::string file(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  sqlite3_free(bytes);
  sqlite3_close(database);
  return file;
}

TEST(NsysReport, ColumnsAreFoundByTheirNames) {
  // The report has texts in UTF-16, a table without row numbers, and columns in another order and in capital
  // letters.
  const auto report = read_nsys(database_of(R"(
      PRAGMA encoding = 'UTF-16';
      CREATE TABLE StringIds (value TEXT, id INTEGER PRIMARY KEY) WITHOUT ROWID;
      INSERT INTO StringIds VALUES ('PP:0F0', 7);
      CREATE TABLE NVTX_EVENTS (TEXTID INTEGER, "END" INTEGER, START INTEGER);
      INSERT INTO NVTX_EVENTS VALUES (7, 30, 10), (8, 60, 40), (7, 'late', 70), (7, 2.5, 80);)"),
                                "rank_0.sqlite");
  ASSERT_TRUE(report) << report.error();
  ASSERT_EQ(report->rows.size(), 1U);
  EXPECT_EQ(report->rows[0].actions.at(0), (Action{.kind = ActionKind::forward, .microbatch = 0}));
  EXPECT_EQ(report->rows[0].start_ns, 10);
  EXPECT_EQ(report->rows[0].end_ns, 30);
}

TEST(NsysReport, OnlyPlainTablesAreRead) {
  const std::string endless = R"(AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
      SELECT i AS start, i AS end, 'PP:0F0' AS text FROM n;)";
  const auto view = read_nsys(database_of("CREATE VIEW NVTX_EVENTS " + endless), "rank_0.sqlite");
  ASSERT_FALSE(view);
  EXPECT_THAT(view.error(), HasSubstr("expected a report of Nsight Systems with the table NVTX_EVENTS"));
}

TEST(NsysReport, PagesThatRepeatEndTheReading) {
  // All children of an interior page are the same next page. With 30 children on each of n pages, there would
  // be 30^n rows.
  std::string bytes = database_of(R"(
      PRAGMA page_size = 512; CREATE TABLE NVTX_EVENTS (start, end);
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
      INSERT INTO NVTX_EVENTS SELECT i, i + 1 FROM n;)");
  constexpr std::size_t kPage = 512;
  constexpr std::size_t kLastChild = 8;
  constexpr std::size_t kCells = 12;
  const auto number_at = [&](std::size_t at) {
    return static_cast<unsigned char>(bytes[at]) * 256U + static_cast<unsigned char>(bytes[at + 1]);
  };
  std::size_t leaf = 0;
  std::vector<std::size_t> interior;
  for (std::size_t page = kPage; page < bytes.size(); page += kPage) {
    if (bytes[page] == 5) interior.push_back(page);
    if (bytes[page] == 13) leaf = page;
  }
  ASSERT_GE(interior.size(), 5U);
  for (std::size_t i = 0; i < interior.size(); ++i) {
    const std::size_t page = interior[i];
    const std::size_t child = (i + 1 < interior.size() ? interior[i + 1] : leaf) / kPage + 1;
    const std::string number = {0, 0, static_cast<char>(child / 256), static_cast<char>(child % 256)};
    for (unsigned cell = 0; cell < number_at(page + 3); ++cell)
      bytes.replace(page + number_at(page + kCells + 2 * cell), number.size(), number);
    bytes.replace(page + kLastChild, number.size(), number);
  }
  const auto report = read_nsys(bytes, "rank_0.sqlite");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error(),
            "rank_0.sqlite: the SQLite file is damaged or cut (its tables have more rows than the file has "
            "place for)");
}

TEST(NsysReport, AskedForInOneFile) {
  std::string bytes = content_of("nsys_rank_0.sqlite.gz");
  bytes[18] = bytes[19] = 2;
  const auto report = read_nsys(bytes, "rank_0.sqlite");
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error(), HasSubstr("write-ahead log: run sqlite3 FILE"));
}

TEST(NsysReport, DamagedFilesEnd) {
  const std::string bytes = content_of("nsys_rank_0.sqlite.gz");
  for (std::size_t size = 0; size < bytes.size(); size += 101) {
    const auto cut = read_nsys(bytes.substr(0, size), "rank_0.sqlite");
    EXPECT_FALSE(cut) << size << " bytes";
  }
  // Each byte is replaced by other values, so that lengths, positions and page numbers are wrong.
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
