// Reads reports of Nsight Systems, which are exported as SQLite files. These tables contain the same events
// as a trace of Kineto:
//
//   NVTX_EVENTS                      ranges of the host: PP:3F5, and the operators of emit_nvtx
//   CUPTI_ACTIVITY_KIND_RUNTIME      calls that launch kernels
//   CUPTI_ACTIVITY_KIND_KERNEL       kernels, which correlationId joins with their launch
//   StringIds                        the names of kernels and ranges
//   TARGET_INFO_SESSION_START_TIME   the time of day from which the other times count
//
// Times are nanoseconds. Reports are untrusted. SQLite therefore reads the bytes in memory and may only
// select from tables, without views, triggers or extensions (https://www.sqlite.org/security.html). Values
// have at most 1 MiB, and the number of steps is bounded. Tests: tests/sim/nsys_test.cpp.

#include "sim/autopsy/trace_formats.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

constexpr std::string_view kMagic{"SQLite format 3\0", 16};
constexpr std::string_view kDamaged = "the SQLite file is damaged or cut";

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct EndStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, EndStatement>;

/// The current row of a statement's result. If the table lacks a column, the value in this column is neither
/// a number nor a text.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}

  /// Returns a whole number, or nothing if the value is of another type.
  std::optional<std::int64_t> number(int column) const {
    if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) return std::nullopt;
    return sqlite3_column_int64(statement_, column);
  }

  /// Returns a text in UTF-8, which is valid until the next row is read. Returns nothing if the value is of
  /// another type.
  std::optional<std::string_view> text(int column) const {
    if (sqlite3_column_type(statement_, column) != SQLITE_TEXT) return std::nullopt;
    const unsigned char* bytes = sqlite3_column_text(statement_, column);
    if (bytes == nullptr) return std::nullopt;  // SQLite had no memory
    return std::string_view(
        reinterpret_cast<const char*>(bytes),  // NOLINT(*-reinterpret-cast): SQLite's type
        static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_;
};

/// Returns SQLITE_OK if a statement may do `action`. Tables and columns may be read, and nothing else.
int allowed(void* /*unused*/, int action, const char* /*unused*/, const char* /*unused*/,
            const char* /*unused*/, const char* /*unused*/) {
  return action == SQLITE_SELECT || action == SQLITE_READ ? SQLITE_OK : SQLITE_DENY;
}

/// The tables of a report. `bytes` must outlive the object.
class ReportTables {
 public:
  /// Opens the bytes of a file. The error message states what is wrong with the file.
  static tl::expected<ReportTables, std::string> open(std::string_view bytes) {
    constexpr std::size_t kHead = 100;
    constexpr std::size_t kPageSize = 16;
    constexpr std::size_t kWriteVersion = 18;
    constexpr char kWriteAheadLog = 2;
    if (bytes.size() < kHead) return tl::unexpected(std::string(kDamaged));
    if (bytes[kWriteVersion] == kWriteAheadLog) {
      return tl::unexpected(
          std::string("expected a report in one file, got a file whose last changes may be in a write-ahead "
                      "log: run sqlite3 FILE \"PRAGMA journal_mode = DELETE\" first"));
    }
    // A file may end inside its last page, and SQLite would read zeros there. The page size 1 in the header
    // means 65536.
    const std::size_t size = static_cast<unsigned char>(bytes[kPageSize]) * 256U +
                             static_cast<unsigned char>(bytes[kPageSize + 1]);
    if (size == 0 || bytes.size() % (size == 1 ? 65536 : size) != 0)
      return tl::unexpected(std::string(kDamaged));
    ReportTables tables(bytes.size());
    if (auto opened = tables.connect(bytes); !opened) return tl::unexpected(opened.error());
    // Views and virtual tables have the root page 0, so they are left out.
    auto named = tables.each_row_of("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0",
                                    [&](const Row& row) { tables.names_.emplace(row.text(0).value_or("")); });
    if (!named) return tl::unexpected(named.error());
    return tables;
  }

  bool has(std::string_view table) const { return names_.contains(table); }

  /// Calls `take` with each row of a table, with the values of the columns `columns`. A table that does not
  /// exist has no rows. Returns an error if the file is damaged.
  tl::expected<void, std::string> each_row(std::string_view table, std::span<const std::string_view> columns,
                                           const std::function<void(const Row&)>& take) const {
    if (!has(table)) return {};
    const std::string from = fmt::format(" FROM \"{}\"", table);
    auto all = prepared("SELECT *" + from);
    if (!all) return tl::unexpected(all.error());
    // SQLite would read the quoted name of a missing column as a text.
    std::vector<std::string> wanted;
    for (const std::string_view column : columns)
      wanted.push_back(has_column(all->get(), column) ? fmt::format("\"{}\"", column) : "NULL");
    return each_row_of(fmt::format("SELECT {}{}", fmt::join(wanted, ", "), from), take);
  }

 private:
  // In a damaged file, several tables may refer to one page, so reading could take very long. SQLite takes
  // about ten steps for a row, and a row has more than six bytes. So four steps for each byte of the file are
  // enough for a valid file.
  static constexpr int kStepsBetweenCalls = 100'000;
  static constexpr std::uint64_t kStepsForByte = 4;

  explicit ReportTables(std::size_t bytes)
      : calls_left_(std::make_unique<std::uint64_t>(1 + kStepsForByte * bytes / kStepsBetweenCalls)) {}

  /// Opens the database in memory and forbids everything except reading from its tables.
  tl::expected<void, std::string> connect(std::string_view bytes) {
    constexpr int kLongestValue = 1 << 24;
    sqlite3* opened = nullptr;
    const int status = sqlite3_open_v2(
        ":memory:", &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, nullptr);
    database_.reset(opened);
    if (status != SQLITE_OK) return tl::unexpected(std::string("SQLite cannot start"));
    sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, kLongestValue);
    sqlite3_limit(opened, SQLITE_LIMIT_ATTACHED, 0);
    for (const int right : {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, SQLITE_DBCONFIG_ENABLE_TRIGGER,
                            SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_TRUSTED_SCHEMA})
      sqlite3_db_config(opened, right, 0, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    // sqlite3_deserialize() takes a pointer without const, but it does not write to a read-only database.
    auto* content = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));  // NOLINT
    const auto size = static_cast<sqlite3_int64>(bytes.size());
    if (sqlite3_deserialize(opened, "main", content, size, size, SQLITE_DESERIALIZE_READONLY) != SQLITE_OK ||
        sqlite3_exec(opened, "PRAGMA cell_size_check = ON", nullptr, nullptr, nullptr) != SQLITE_OK)
      return tl::unexpected(failure());
    sqlite3_set_authorizer(opened, allowed, nullptr);
    const auto count = [](void* left) { return (*static_cast<std::uint64_t*>(left))-- == 0 ? 1 : 0; };
    sqlite3_progress_handler(opened, kStepsBetweenCalls, count, calls_left_.get());
    return {};
  }

  static bool has_column(sqlite3_stmt* statement, std::string_view name) {
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const std::string_view column = sqlite3_column_name(statement, i);
      if (std::ranges::equal(column, name, std::equal_to{}, lower, lower)) return true;
    }
    return false;
  }
  static int lower(char c) { return std::tolower(static_cast<unsigned char>(c)); }

  tl::expected<Statement, std::string> prepared(const std::string& sql) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
      return tl::unexpected(failure());
    return Statement(statement);
  }

  tl::expected<void, std::string> each_row_of(const std::string& sql,
                                              const std::function<void(const Row&)>& take) const {
    auto statement = prepared(sql);
    if (!statement) return tl::unexpected(statement.error());
    int status = SQLITE_ROW;
    while ((status = sqlite3_step(statement->get())) == SQLITE_ROW) take(Row(statement->get()));
    if (status != SQLITE_DONE) return tl::unexpected(failure());
    return {};
  }

  std::string failure() const {
    const bool stopped = sqlite3_errcode(database_.get()) == SQLITE_INTERRUPT;
    return fmt::format(
        "the SQLite file is damaged or cut ({})",
        stopped ? "its tables have more rows than the file has place for" : sqlite3_errmsg(database_.get()));
  }

  /// Number of calls of the handler that remain until the query is stopped.
  std::unique_ptr<std::uint64_t> calls_left_;
  std::unique_ptr<sqlite3, CloseDatabase> database_{};
  std::set<std::string, std::less<>> names_{};
};

constexpr std::int64_t kLatest = std::int64_t{1} << 61U;

/// Returns an event whose start and end are in the first two columns. Returns nothing if the end is missing
/// or a time is impossible.
std::optional<TraceEvent> event_of(const Row& row) {
  const auto start = row.number(0);
  const auto end = row.number(1);
  if (!start || !end || *start < -kLatest || *end > kLatest || *end < *start) return std::nullopt;
  return TraceEvent{.start_ns = *start, .end_ns = *end};
}

/// A reader that collects the events of one report.
class ReportReader {
 public:
  explicit ReportReader(const ReportTables& tables) : tables_(tables) {}

  tl::expected<void, std::string> read() {
    const std::array steps = {&ReportReader::read_names, &ReportReader::read_ranges,
                              &ReportReader::read_launches, &ReportReader::read_kernels,
                              &ReportReader::read_clock};
    for (const auto step : steps) {
      if (auto done = (this->*step)(); !done) return done;
    }
    return {};
  }

  /// The number of processes that have ranges. The bits of a globalTid above its lowest 24 bits identify the
  /// process.
  std::size_t processes() const { return processes_.size(); }
  TraceEvents events() && { return std::move(events_); }

 private:
  tl::expected<void, std::string> read_names() {
    constexpr std::array<std::string_view, 2> kColumns = {"id", "value"};
    return tables_.each_row("StringIds", kColumns, [&](const Row& row) {
      const auto id = row.number(0);
      const auto name = row.text(1);
      if (id && name) names_.emplace(*id, *name);
    });
  }

  tl::expected<void, std::string> read_ranges() {
    constexpr std::array<std::string_view, 5> kColumns = {"start", "end", "text", "textId", "globalTid"};
    return tables_.each_row("NVTX_EVENTS", kColumns, [&](const Row& row) {
      auto event = event_of(row);
      if (!event) return;
      constexpr unsigned kThreadBits = 24;
      event->thread = row.number(4).value_or(-1);
      const auto text = row.text(2);
      std::string_view name = text ? *text : name_of(row.number(3));
      // emit_nvtx appends numbers to the name: "aten::mm, seq = 5, op_id = 12".
      constexpr std::string_view kSequence = ", seq = ";
      if (const auto at = name.find(kSequence); at != std::string_view::npos)
        event->sequence = leading_number<std::int64_t>(name.substr(at + kSequence.size())).value.value_or(-1);
      name = name.substr(0, name.find(", "));
      if (name.starts_with("PP:") && event->thread >= 0) processes_.insert(event->thread >> kThreadBits);
      add_host_event(events_, *event, name);
    });
  }

  tl::expected<void, std::string> read_launches() {
    constexpr std::array<std::string_view, 3> kColumns = {"start", "end", "correlationId"};
    return tables_.each_row("CUPTI_ACTIVITY_KIND_RUNTIME", kColumns, [&](const Row& row) {
      auto event = event_of(row);
      const auto correlation = row.number(2);
      if (!event || !correlation) return;
      event->correlation = *correlation;
      events_.launches.push_back(*event);
    });
  }

  tl::expected<void, std::string> read_kernels() {
    constexpr std::array<std::string_view, 4> kColumns = {"start", "end", "correlationId", "shortName"};
    constexpr std::array<std::string_view, 3> kTables = {
        "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"};
    for (const std::string_view table : kTables) {
      auto done = tables_.each_row(table, kColumns, [&](const Row& row) {
        auto event = event_of(row);
        if (!event) return;
        event->correlation = row.number(2).value_or(-1);
        add_kernel(events_, *event, name_of(row.number(3)));
      });
      if (!done) return done;
    }
    return {};
  }

  tl::expected<void, std::string> read_clock() {
    constexpr std::array<std::string_view, 1> kColumns = {"utcEpochNs"};
    Ns begin = 0;
    auto done = tables_.each_row("TARGET_INFO_SESSION_START_TIME", kColumns, [&](const Row& row) {
      const Ns time = row.number(0).value_or(0);
      if (time > 0 && time < kLatest) begin = time;
    });
    move_times(events_, begin);
    return done;
  }

  std::string_view name_of(std::optional<std::int64_t> id) const {
    const auto found = id ? names_.find(*id) : names_.end();
    return found == names_.end() ? std::string_view{} : std::string_view(found->second);
  }

  const ReportTables& tables_;
  std::map<std::int64_t, std::string> names_;
  std::set<std::int64_t> processes_;
  TraceEvents events_;
};

}  // namespace

bool is_sqlite(std::string_view bytes) { return bytes.starts_with(kMagic); }

tl::expected<RankTrace, std::string> read_nsys(std::string_view bytes, std::string_view file) {
  const auto failed = [&](const auto& why) { return tl::unexpected(fmt::format("{}: {}", file, why)); };
  const auto tables = ReportTables::open(bytes);
  if (!tables) return failed(tables.error());
  if (!tables->has("NVTX_EVENTS") && !tables->has("CUPTI_ACTIVITY_KIND_KERNEL")) {
    return failed(
        "expected a report of Nsight Systems with the table NVTX_EVENTS or CUPTI_ACTIVITY_KIND_KERNEL, got "
        "neither: record with nsys profile --trace=cuda,nvtx and export with nsys export --type sqlite");
  }
  const auto rank = rank_in_name(file);
  if (!rank) return failed("expected the rank in the name of the file, such as rank_3.sqlite, got none");
  ReportReader reader(*tables);
  if (auto done = reader.read(); !done) return failed(done.error());
  if (reader.processes() > 1) {
    return failed(fmt::format(
        "expected the report of one rank, got {} processes: record each rank by itself, with nsys profile "
        "-o rank_%q{{RANK}}",
        reader.processes()));
  }
  return rank_trace_of(std::move(reader).events(), *rank);
}

}  // namespace penstock
