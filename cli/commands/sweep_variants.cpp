// Reads --vary KEY=VALUE,VALUE... The combinations of all values are the product of the lists:
//
//   --vary a=1,2 --vary b=x,y,z        a=1 b=x   a=1 b=y   a=1 b=z   a=2 b=x   a=2 b=y   a=2 b=z
//
// A value is YAML, as after --set. It may be a list or a mapping, which contain commas of their own.
// Tested by SweepVary (tests/cli/sweep_vary_test.cpp).
#include "cli/commands/sweep_variants.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "report/print/table.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/document.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

std::string without_outer_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

/// Returns the values after the '=' of one --vary. Ranges of whole numbers are written out.
tl::expected<std::vector<std::string>, UserError> values_of(const std::string& flag,
                                                            const std::string& text) {
  const bool is_range =
      text.find("..") != std::string::npos && text.find_first_not_of("0123456789,.") == std::string::npos;
  if (is_range) {
    const auto numbers = numbers_of_flag(flag, text);
    if (!numbers) return tl::unexpected(numbers.error());
    std::vector<std::string> values;
    for (const auto number : *numbers) values.push_back(std::to_string(number));
    return values;
  }
  std::vector<std::string> values;
  for (std::string& value : values_between_commas(text)) {
    if (value.empty()) {
      return bad_input(fmt::format("{}: expected values with a comma between each two, got \"{}\"", flag,
                                   shown_name(text)));
    }
    // A value that is listed twice would give the same points twice.
    if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

std::vector<std::string> values_between_commas(std::string_view text) {
  std::vector<std::string> values;
  std::size_t begin = 0;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.push_back(without_outer_spaces(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  values.push_back(without_outer_spaces(text.substr(begin)));
  return values;
}

std::optional<std::string> taken_values(std::vector<std::string>& texts, std::string_view key) {
  const auto found = std::ranges::find_if(texts, [&](const std::string& text) {
    return text.size() > key.size() && text.starts_with(key) && text[key.size()] == '=';
  });
  if (found == texts.end()) return std::nullopt;
  std::string values = found->substr(key.size() + 1);
  texts.erase(found);
  return values;
}

tl::expected<std::vector<VariedKey>, UserError> varied_keys(const std::vector<std::string>& texts) {
  std::vector<VariedKey> keys;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return bad_input(
          fmt::format("--vary: expected KEY=VALUE,VALUE... such as cluster.latency=1us,4us, got \"{}\"",
                      shown_name(text)));
    }
    const std::string key = text.substr(0, equals);
    const std::string flag = "--vary " + key;
    if (key == "schedule") {
      return bad_input("--vary schedule: expected a key below it, such as schedule.name or schedule.program");
    }
    if (std::ranges::find(keys, key, &VariedKey::key) != keys.end())
      return bad_input(fmt::format("{} is given twice: put all of its values into one list", flag));
    auto values = values_of(flag, text.substr(equals + 1));
    if (!values) return tl::unexpected(values.error());
    keys.push_back({.key = key, .values = *std::move(values)});
  }
  return keys;
}

tl::expected<std::vector<std::vector<Override>>, UserError> combinations_of(
    const std::vector<VariedKey>& keys, std::size_t most) {
  std::vector<std::vector<Override>> combinations = {{}};
  for (const VariedKey& key : keys) {
    if (key.values.size() > most / combinations.size()) {
      return bad_input(fmt::format(
          "the values of --vary have more than {} combinations: make the lists shorter, or lift the limit by "
          "--max-points",
          most));
    }
    std::vector<std::vector<Override>> longer;
    longer.reserve(combinations.size() * key.values.size());
    for (const std::vector<Override>& combination : combinations) {
      for (const std::string& value : key.values) {
        longer.push_back(combination);
        longer.back().push_back({.key = key.key, .value = value, .flag = "--vary " + key.key});
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

// Summarizes a sweep of thousands of points. It prints counts, the best point of each schedule, and the
// values of M that do not fit into memory ("M 1-4, 8"). It also prints why points were skipped. If reasons
// differ only in numbers ("3 microbatches do not divide by 2", "5 microbatches do not divide by 2"), they are
// printed once.

namespace {

/// Returns the numbers as text. Consecutive numbers become a range, such as in "1-4, 8".
std::string runs_of(const std::set<std::int32_t>& numbers) {
  std::vector<std::string> runs;
  for (auto next = numbers.begin(); next != numbers.end();) {
    const std::int32_t first = *next++;
    std::int32_t last = first;
    for (; next != numbers.end() && *next == last + 1; ++next) last = *next;
    runs.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

/// Returns a table of the values of M that do not fit into memory. It has a line for each schedule, K, v
/// and combination of varied values, such as "gpipe  1  1  1-4, 8". The text is empty if all points fit.
std::string out_of_memory_text(const Sweep& sweep, std::size_t width) {
  std::map<std::tuple<VariedValues, std::string, std::int32_t, std::int32_t>, std::set<std::int32_t>>
      microbatches;
  for (const SweepRow& row : sweep.rows) {
    if (row.status == SweepStatus::out_of_memory)
      microbatches[{row.varied, row.schedule, row.stages, row.virtual_stages}].insert(row.microbatches);
  }
  if (microbatches.empty()) return "";
  const VariedValues& varied = sweep.rows.front().varied;
  Table table{.columns = {"schedule", "K", "v", "M"}, .rows = {}, .keys = 3 + varied.size()};
  for (std::size_t i = 0; i < varied.size(); ++i)
    table.columns.insert(table.columns.begin() + static_cast<std::ptrdiff_t>(i), varied[i].first);
  for (const auto& [point, numbers] : microbatches) {
    const auto& [values, schedule, stages, virtual_stages] = point;
    std::vector<Cell> cells;
    for (const auto& [key, value] : values) cells.push_back({value, {}});
    cells.push_back({schedule, {}});
    cells.push_back({fmt::format("{}", stages), stages});
    cells.push_back({fmt::format("{}", virtual_stages), virtual_stages});
    cells.push_back({runs_of(numbers), {}});
    table.rows.push_back(std::move(cells));
  }
  return "\ndoes not fit in memory\n" + table_to_text(table, width);
}

/// A group of points that were refused for the same reason. The numbers in their reasons may differ.
struct Refused {
  std::string first_reason;
  std::size_t count = 0;
  bool reasons_differ = false;
  std::set<std::int32_t> stages;
  std::set<std::int32_t> microbatches;
};

/// Returns the reason with each number replaced by '#'. Reasons with equal results form one group. For
/// example, "3 microbatches do not divide by 2" becomes "# microbatches do not divide by #".
std::string without_numbers(std::string_view reason) {
  std::string text;
  for (const char c : reason) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit) text += c;
    if (is_digit && !text.ends_with('#')) text += '#';
  }
  return text;
}

/// Returns the K and M of a group of refused points, such as " (the first of K 17-64, M 8)". The text is
/// empty if all points have the same reason with the same numbers.
std::string range_text(const Refused& refused) {
  if (!refused.reasons_differ) return "";
  return fmt::format(" (the first of K {}, M {})", runs_of(refused.stages), runs_of(refused.microbatches));
}

/// Returns one line for each reason why points have this status, the most frequent reason first. Equally
/// frequent reasons are in alphabetical order. Only eight reasons are listed, because rare reasons are less
/// useful.
std::string reason_lines(const Sweep& sweep, SweepStatus status) {
  std::map<std::string, Refused> groups;
  for (const SweepRow& row : sweep.rows) {
    if (row.status != status) continue;
    Refused& group = groups[without_numbers(row.reason)];
    if (group.count++ == 0) group.first_reason = row.reason;
    group.reasons_differ |= row.reason != group.first_reason;
    group.stages.insert(row.stages);
    group.microbatches.insert(row.microbatches);
  }
  std::vector<Refused> reasons;
  reasons.reserve(groups.size());
  for (auto& [text, group] : groups) reasons.push_back(std::move(group));
  std::ranges::stable_sort(reasons, std::greater{}, &Refused::count);
  std::string text;
  constexpr std::size_t kMostReasons = 8;
  for (std::size_t i = 0; i < reasons.size() && i < kMostReasons; ++i) {
    text +=
        fmt::format("  {:>4} x {}{}\n", reasons[i].count, reasons[i].first_reason, range_text(reasons[i]));
  }
  if (reasons.size() > kMostReasons)
    text += fmt::format("  ... and {} other reasons\n", reasons.size() - kMostReasons);
  return text;
}

std::string reasons_text(const Sweep& sweep, SweepStatus status) {
  const std::string lines = reason_lines(sweep, status);
  return lines.empty() ? "" : fmt::format("\n{}\n{}", to_text(status), lines);
}

std::string counts_text(const Sweep& sweep) {
  const auto count = [&](SweepStatus status) {
    return std::ranges::count(sweep.rows, status, &SweepRow::status);
  };
  return fmt::format("{} points: {} ok, {} out of memory, {} skipped, {} failed\n", sweep.rows.size(),
                     count(SweepStatus::ok), count(SweepStatus::out_of_memory), count(SweepStatus::skipped),
                     count(SweepStatus::failed));
}

/// Returns a text with the best point of each schedule. It is the same text as at the end of sweep_table().
std::string best_text(const Sweep& sweep, std::size_t width) {
  const std::vector<SweepRow> best = best_per_schedule(sweep);
  if (best.empty()) return "\nno point ran and fits in memory\n";
  return "\nbest of each schedule by steady samples/s (by those of the run where there is no steady "
         "figure)\n" +
         table_to_text(sweep_rows(best), width);
}

}  // namespace

std::string sweep_summary(const Sweep& sweep, const std::vector<std::string>& files, std::size_t width) {
  if (sweep.rows.size() <= kMostRowsPrinted) return sweep_table(sweep, width);
  std::string text = sweep.title.empty() ? "" : sweep.title + "\n";
  text += counts_text(sweep) + best_text(sweep, width) + out_of_memory_text(sweep, width) +
          reasons_text(sweep, SweepStatus::skipped) + reasons_text(sweep, SweepStatus::failed) + '\n';
  for (const std::string& note : sweep.notes) text += fmt::format("note: {}\n", note);
  text += files.empty() ? "all rows: add -o table.csv or -o report.html\n"
                        : fmt::format("all rows: {}\n", fmt::join(files, ", "));
  return text;
}

std::string refusals_text(const Sweep& sweep) {
  return reason_lines(sweep, SweepStatus::skipped) + reason_lines(sweep, SweepStatus::failed);
}

}  // namespace penstock
