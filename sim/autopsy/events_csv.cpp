// Reads a table of recorded events. Columns are found by their names, so a table may have other columns as
// well. An example is the timeline that `penstock simulate -o timeline.csv` writes. Tests:
// tests/sim/autopsy_test.cpp.

#include "sim/autopsy/trace_formats.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/text/text_cursor.hpp"
#include "sim/autopsy/recording.hpp"
#include "text/csv_table.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

struct TimeUnit {
  std::string_view suffix;
  std::int64_t ns = 1;
};
constexpr std::array kUnits = {TimeUnit{"_ns", 1}, TimeUnit{"_us", 1'000}, TimeUnit{"_ms", 1'000'000},
                               TimeUnit{"_s", 1'000'000'000}};

/// Returns the unit of the times in a column such as "start". Returns nothing if the table has no such
/// column in any unit.
std::optional<TimeUnit> unit_of(const CsvTable& table, std::string_view column) {
  for (const TimeUnit& unit : kUnits) {
    if (table.has(fmt::format("{}{}", column, unit.suffix))) return unit;
  }
  return std::nullopt;
}

/// A reader of the rows in one CSV table of recorded actions.
class EventReader {
 public:
  explicit EventReader(const CsvTable& table) : table_(table) {}

  tl::expected<RecordedRows, std::string> read() {
    if (auto found = find_columns(); !found) return tl::unexpected(found.error());
    RecordedRows recorded;
    recorded.rows.reserve(table_.row_count());
    for (std::size_t row = 0; row < table_.row_count(); ++row) {
      auto read = read_row(row);
      if (!read) return tl::unexpected(fmt::format("{}: {}", table_.line(row), read.error()));
      if (*read) recorded.rows.push_back(**std::move(read));
    }
    if (!left_out_.empty()) recorded.notes.push_back(left_out_note());
    return recorded;
  }

 private:
  using Fault = tl::unexpected<std::string>;

  tl::expected<void, std::string> find_columns() {
    start_ = unit_of(table_, "start");
    end_ = unit_of(table_, "end");
    if (!end_) duration_ = unit_of(table_, "duration");
    if (!start_ || (!end_ && !duration_)) {
      return Fault(
          fmt::format("1: expected the times in columns such as start_us and end_us (ns, us, ms, s), got {}",
                      shown_name(fmt::format("{}", fmt::join(table_.header(), ", ")).substr(0, 200))));
    }
    const bool has_parts = table_.has("kind") && table_.has("stage") && table_.has("microbatch");
    if (!table_.has("action") && !has_parts)
      return Fault("1: expected a column \"action\", or kind, stage and microbatch, got none of them");
    if (table_.row_count() > kMostRecorded)
      return Fault(fmt::format("1: expected at most {} rows, got {}", kMostRecorded, table_.row_count()));
    return {};
  }

  tl::expected<std::optional<RecordedRow>, std::string> read_row(std::size_t row) {
    RecordedRow read;
    auto actions = read_actions_of(row);
    if (!actions) return Fault(actions.error());
    if (actions->empty()) return std::nullopt;
    read.actions = *std::move(actions);
    const auto rank = number(row, "rank");
    if (!rank) return Fault(rank.error());
    read.rank = *rank;
    for (const auto& [column, value] : {std::pair{"step", &read.step}, std::pair{"copy", &read.copy}}) {
      if (!table_.has(column)) continue;
      const auto stated = number(row, column);
      if (!stated) return Fault(stated.error());
      *value = *stated;
    }
    const auto start = time(row, "start", *start_);
    const auto end = end_ ? time(row, "end", *end_) : time(row, "duration", *duration_);
    if (!start) return Fault(start.error());
    if (!end) return Fault(end.error());
    read.start_ns = *start;
    read.end_ns = end_ ? *end : *start + *end;
    if (read.end_ns < read.start_ns) {
      return Fault(fmt::format("expected an end that is not before the start, got {} before {}",
                               format_duration(read.end_ns), format_duration(read.start_ns)));
    }
    return read;
  }

  /// Returns the actions that the name in a row states. Returns an empty list if the name is not that of a
  /// pipeline action.
  tl::expected<std::vector<Action>, std::string> read_actions_of(std::size_t row) {
    const std::string text = table_.has("action")
                                 ? table_.cell(row, "action")
                                 : fmt::format("{}{}{}", table_.cell(row, "stage"), table_.cell(row, "kind"),
                                               table_.cell(row, "microbatch"));
    const bool begins_as_action =
        !text.empty() && (text.front() == '(' || (text.front() >= '0' && text.front() <= '9'));
    if (!begins_as_action && !text.empty()) {
      // A file may contain any number of other names, so at most 64 of them are counted.
      if (left_out_.size() < 64 || left_out_.contains(text)) ++left_out_[text];
      return std::vector<Action>{};
    }
    auto actions = read_actions(text, {.form = ActionForm::penstock, .stages = kMostNumber});
    if (!actions || actions->empty()) {
      return Fault(fmt::format("expected an action such as 3F5, 3B5 or 3SEND_F5, got \"{}\"{}",
                               shown_name(text.substr(0, 100)),
                               actions ? "" : fmt::format(": {}", shown_name(actions.error().message))));
    }
    for (std::size_t i = 0; i < actions->size(); ++i) {
      if (i + 1 < actions->size() && !(*actions)[i].overlaps_next) {
        return Fault(
            fmt::format("expected one action in a row, got \"{}\"", shown_name(text.substr(0, 100))));
      }
      if ((*actions)[i].microbatch >= kMostNumber) {
        return Fault(
            fmt::format("expected a microbatch below {}, got {}", kMostNumber, (*actions)[i].microbatch));
      }
    }
    return *std::move(actions);
  }

  tl::expected<std::int64_t, std::string> number(std::size_t row, std::string_view column) const {
    const auto read = whole_number(table_.cell(row, column), {.least = 0, .most = 2'147'483'647});
    if (!read) return Fault(fmt::format("{}: {}", column, read.error()));
    return *read;
  }

  tl::expected<Ns, std::string> time(std::size_t row, std::string_view column, const TimeUnit& unit) const {
    const std::string name = fmt::format("{}{}", column, unit.suffix);
    const std::string& text = table_.cell(row, name);
    // Whole numbers are read as integers, because a double is exact only up to 2^53. Times since 1970 in
    // nanoseconds are larger.
    if (const auto whole = number_of_text<std::int64_t>(text); whole && std::abs(*whole) < kLongest / unit.ns)
      return *whole * unit.ns;
    const auto value = finite_number(text);
    if (!value || std::abs(*value) * static_cast<double>(unit.ns) >= static_cast<double>(kLongest))
      return Fault(fmt::format("{}: expected a time, got \"{}\"", name, shown_name(text.substr(0, 100))));
    return std::llround(*value * static_cast<double>(unit.ns));
  }
  /// The largest time that is accepted, in nanoseconds. Sums and differences of two such times fit in 64
  /// bits.
  static constexpr std::int64_t kLongest = std::int64_t{1} << 61U;

  std::string left_out_note() const {
    std::vector<std::string> names;
    for (const auto& [name, count] : left_out_) {
      if (names.size() < 8) names.push_back(fmt::format("{} ({})", shown_name(name.substr(0, 60)), count));
    }
    return fmt::format("rows left out, because they are no actions of a pipeline: {}{}",
                       fmt::join(names, ", "), names.size() < left_out_.size() ? ", .." : "");
  }

  const CsvTable& table_;
  std::optional<TimeUnit> start_;
  std::optional<TimeUnit> end_;
  std::optional<TimeUnit> duration_;
  std::map<std::string, std::int64_t> left_out_;
};

}  // namespace

tl::expected<RecordedRows, std::string> read_events(std::string_view text, std::string_view file) {
  constexpr std::array<std::string_view, 1> kRequired = {"rank"};
  const auto table = CsvTable::parse(text, kRequired);
  if (!table) return tl::unexpected(fmt::format("{}:{}", file, table.error()));
  auto rows = EventReader(*table).read();
  if (!rows) return tl::unexpected(fmt::format("{}:{}", file, rows.error()));
  return rows;
}

std::string events_to_csv(const Recording& recording) {
  std::string text = "step,copy,rank,action,start_ns,end_ns\n";
  for (const RecordedStep& step : recording.steps) {
    for (std::size_t rank = 0; rank < step.lists.size(); ++rank) {
      const RankName& name = recording.names[rank];
      const std::vector<RecordedAction>& list = step.lists[rank];
      for (std::size_t i = 0; i < list.size(); ++i) {
        std::string action = text_in_copy(list[i].action, recording.copies);
        const RecordedAction& first = list[i];
        if (list[i].action.overlaps_next) {
          while (list[i].action.overlaps_next && i + 1 < list.size())
            action += fmt::format(";{}", text_in_copy(list[++i].action, recording.copies));
          action = fmt::format("({})OVERLAP_F_B", action);
        }
        text += fmt::format("{},{},{},{},{},{}\n", step.number, name.copy, name.rank, action, first.start_ns,
                            first.end_ns);
      }
    }
  }
  return text;
}

}  // namespace penstock
