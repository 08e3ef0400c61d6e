#include "cli/sweep_summary.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/sweep.hpp"
#include "report/table.hpp"

namespace penstock {
namespace {

/// "1-4, 8": runs of neighbouring numbers. Requires ascending numbers.
std::string runs_of(const std::vector<std::int32_t>& numbers) {
  std::vector<std::string> runs;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    runs.push_back(first == last ? fmt::format("{}", numbers[first])
                                 : fmt::format("{}-{}", numbers[first], numbers[last]));
    first = last + 1;
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

/// "gpipe   K 1: M 1-4, 8": for each schedule and K which M do not fit.
std::string out_of_memory_text(const Sweep& sweep) {
  std::map<std::pair<std::string, std::int32_t>, std::vector<std::int32_t>> microbatches;
  for (const SweepRow& row : sweep.rows) {
    if (row.status == SweepStatus::out_of_memory)
      microbatches[{row.schedule, row.stages}].push_back(row.microbatches);
  }
  Table table{.columns = {"schedule", "K", "M"}, .rows = {}};
  for (const auto& [point, numbers] : microbatches) {
    table.rows.push_back(
        {{point.first, {}}, {fmt::format("{}", point.second), point.second}, {runs_of(numbers), {}}});
  }
  return table.rows.empty() ? "" : "\ndoes not fit in memory\n" + table_to_text(table);
}

/// Each reason once, the most frequent first.
std::string reasons_text(const Sweep& sweep, SweepStatus status) {
  std::map<std::string, std::size_t> counts;
  for (const SweepRow& row : sweep.rows) {
    if (row.status == status) ++counts[row.reason];
  }
  std::vector<std::pair<std::string, std::size_t>> reasons(counts.begin(), counts.end());
  std::ranges::stable_sort(reasons, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  constexpr std::size_t kMostReasons = 8;
  for (std::size_t i = 0; i < reasons.size() && i < kMostReasons; ++i) {
    text += fmt::format("  {:>4} x {}\n", reasons[i].second, reasons[i].first);
  }
  if (reasons.size() > kMostReasons)
    text += fmt::format("  ... and {} other reasons\n", reasons.size() - kMostReasons);
  return text.empty() ? "" : fmt::format("\n{}\n{}", to_text(status), text);
}

std::string counts_text(const Sweep& sweep) {
  const auto count = [&](SweepStatus status) {
    return std::ranges::count(sweep.rows, status, &SweepRow::status);
  };
  return fmt::format("{} points: {} ok, {} out of memory, {} skipped, {} failed\n", sweep.rows.size(),
                     count(SweepStatus::ok), count(SweepStatus::out_of_memory), count(SweepStatus::skipped),
                     count(SweepStatus::failed));
}

std::string best_text(const Sweep& sweep) {
  const std::vector<SweepRow> best = best_per_schedule(sweep);
  if (best.empty()) return "\nno point ran and fits in memory\n";
  return "\nbest of each schedule by steady samples/s (by those of the run where there is no steady "
         "figure)\n" +
         table_to_text(sweep_rows(best));
}

}  // namespace

std::string sweep_summary(const Sweep& sweep, const std::vector<std::string>& files) {
  if (sweep.rows.size() <= kMostRowsPrinted) return sweep_table(sweep);
  std::string text = sweep.title.empty() ? "" : sweep.title + "\n";
  text += counts_text(sweep) + best_text(sweep) + out_of_memory_text(sweep) +
          reasons_text(sweep, SweepStatus::skipped) + reasons_text(sweep, SweepStatus::failed) + '\n';
  for (const std::string& note : sweep.notes) text += fmt::format("note: {}\n", note);
  text += files.empty() ? "all rows: add -o table.csv or -o report.html\n"
                        : fmt::format("all rows: {}\n", fmt::join(files, ", "));
  return text;
}

}  // namespace penstock
