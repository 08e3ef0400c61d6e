// Nsight Systems exports its reports as SQLite files. These tables have what a trace of Kineto has:
//
//   NVTX_EVENTS                      ranges of the host: PP:3F5, and the operators of emit_nvtx
//   CUPTI_ACTIVITY_KIND_RUNTIME      calls that launch kernels
//   CUPTI_ACTIVITY_KIND_KERNEL       kernels, which correlationId joins with their launch
//   StringIds                        the names of kernels and ranges
//   TARGET_INFO_SESSION_START_TIME   the time of day from which the other times count
//
// Times are nanoseconds. Tests: tests/sim/nsys_test.cpp.

#include "sim/autopsy/trace_formats.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "sim/autopsy/sqlite_file.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using Row = std::span<const SqliteValue>;

constexpr std::int64_t kLatest = std::int64_t{1} << 61U;

/// Returns an event with the times of two columns, or nothing if it has no end or impossible times.
std::optional<TraceEvent> event_of(const SqliteValue& start, const SqliteValue& end) {
  if (!start.number || !end.number || *start.number < -kLatest || *end.number > kLatest) return std::nullopt;
  if (*end.number < *start.number) return std::nullopt;
  return TraceEvent{.start_ns = *start.number, .end_ns = *end.number};
}

/// Collects the events of one report.
class ReportReader {
 public:
  explicit ReportReader(const SqliteFile& file) : file_(file) {}

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
    return file_.each_row("StringIds", kColumns, [&](Row row) {
      if (row[0].number && row[1].text) names_.emplace(*row[0].number, *row[1].text);
    });
  }

  tl::expected<void, std::string> read_ranges() {
    constexpr std::array<std::string_view, 5> kColumns = {"start", "end", "text", "textId", "globalTid"};
    return file_.each_row("NVTX_EVENTS", kColumns, [&](Row row) {
      auto event = event_of(row[0], row[1]);
      if (!event) return;
      constexpr unsigned kThreadBits = 24;
      event->thread = row[4].number.value_or(-1);
      std::string_view name = row[2].text ? std::string_view(*row[2].text) : name_of(row[3]);
      // emit_nvtx adds more behind a comma: "aten::mm, seq = 5, op_id = 12".
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
    return file_.each_row("CUPTI_ACTIVITY_KIND_RUNTIME", kColumns, [&](Row row) {
      auto event = event_of(row[0], row[1]);
      if (!event || !row[2].number) return;
      event->correlation = *row[2].number;
      events_.launches.push_back(*event);
    });
  }

  tl::expected<void, std::string> read_kernels() {
    constexpr std::array<std::string_view, 4> kColumns = {"start", "end", "correlationId", "shortName"};
    constexpr std::array<std::string_view, 3> kTables = {
        "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"};
    for (const std::string_view table : kTables) {
      auto done = file_.each_row(table, kColumns, [&](Row row) {
        auto event = event_of(row[0], row[1]);
        if (!event) return;
        event->correlation = row[2].number.value_or(-1);
        add_kernel(events_, *event, name_of(row[3]));
      });
      if (!done) return done;
    }
    return {};
  }

  tl::expected<void, std::string> read_clock() {
    constexpr std::array<std::string_view, 1> kColumns = {"utcEpochNs"};
    Ns begin = 0;
    auto done = file_.each_row("TARGET_INFO_SESSION_START_TIME", kColumns, [&](Row row) {
      if (row[0].number && *row[0].number > 0 && *row[0].number < kLatest) begin = *row[0].number;
    });
    move_times(events_, begin);
    return done;
  }

  std::string_view name_of(const SqliteValue& id) const {
    const auto found = id.number ? names_.find(*id.number) : names_.end();
    return found == names_.end() ? std::string_view{} : std::string_view(found->second);
  }

  const SqliteFile& file_;
  std::map<std::int64_t, std::string> names_;
  std::set<std::int64_t> processes_;
  TraceEvents events_;
};

}  // namespace

tl::expected<RankTrace, std::string> read_nsys(std::string_view bytes, std::string_view file) {
  const auto failed = [&](const auto& why) { return tl::unexpected(fmt::format("{}: {}", file, why)); };
  const auto tables = SqliteFile::open(bytes);
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
