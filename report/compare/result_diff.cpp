// Compares two results, which may come from different schedules. Actions are compared by rank and name. If a
// name occurs several times, the k-th occurrences are compared. Microbatch numbers do not depend on the
// schedule, so actions are found by their names even if the schedule changes. Tests:
// tests/report/compare_test.cpp.

#include "report/compare/result_diff.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// A builder of table rows. It adds a row for every figure that differs between two results.
class FigureRows {
 public:
  explicit FigureRows(Table& table) : table_(table) {
    table_.columns = {"figure", "before", "after", "change"};
  }

  template <typename Format>
  void add(const std::string& figure, double before, double after, Format format) {
    if (before == after) return;
    const std::string change = before == 0 ? "" : fmt::format("{:+.2f} %", 100 * (after / before - 1));
    table_.rows.push_back({{figure, {}}, {format(before), before}, {format(after), after}, {change, {}}});
  }

  /// Adds a row for a memory figure of one rank. If the units differ (activations and bytes), the row shows
  /// both amounts but no difference.
  void add_memory(const std::string& figure, const RankMemory& before, const RankMemory& after) {
    const auto cell = [](const RankMemory& memory) {
      return Cell{format_memory(memory.peak_bytes, memory.unit),
                  shown_amount(memory.peak_bytes, memory.unit)};
    };
    if (before.unit == after.unit) {
      const MemoryUnit unit = before.unit;
      add(figure, shown_amount(before.peak_bytes, unit), shown_amount(after.peak_bytes, unit),
          [unit](double shown) { return format_memory(amount_of_shown(shown, unit), unit); });
    } else {
      table_.rows.push_back({{figure, {}}, cell(before), cell(after), {"other unit", {}}});
    }
  }

 private:
  Table& table_;
};

/// Returns a time as text. It uses period_cell(), because the longest Ns does not fit into 64 bits after a
/// conversion to double and back.
std::string time_text(double ns) { return period_cell(ns).text; }

/// Adds the figures of the ranks that both results have. If the numbers of ranks differ, the remaining ranks
/// are not compared.
void add_ranks(FigureRows& rows, const Result& before, const Result& after) {
  for (std::size_t rank = 0; rank < std::min(before.ranks.size(), after.ranks.size()); ++rank) {
    const RankReport& one = before.ranks[rank];
    const RankReport& other = after.ranks[rank];
    const auto name = [&](const char* figure) { return fmt::format("rank {} {}", rank, figure); };
    rows.add(name("idle"), static_cast<double>(one.idle_ns), static_cast<double>(other.idle_ns), time_text);
    rows.add_memory(name("peak memory"), one.memory, other.memory);
    rows.add(name("activations"), static_cast<double>(one.peak_live_activations),
             static_cast<double>(other.peak_live_activations), format_quantity);
  }
}

// The rank and the name of an action.
using Key = std::pair<std::int32_t, std::string>;

/// Returns the compute actions of a timeline by rank and name. Actions with equal names are in program
/// order.
std::map<Key, std::vector<const Span*>> computed(const Timeline& timeline) {
  std::map<Key, std::vector<const Span*>> actions;
  for (const Span& span : timeline.spans) {
    if (is_compute(span.action.kind)) actions[{span.rank, to_text(span.action)}].push_back(&span);
  }
  return actions;
}

/// Adds the compute actions that start or end at different times in the two timelines. Messages are left out,
/// because their times change whenever those of the actions change.
void add_actions(ResultDiff& diff, const Timeline& before, const Timeline& after) {
  const auto first = computed(before);
  const auto second = computed(after);
  for (const auto& [key, spans] : first) {
    const auto found = second.find(key);
    const std::size_t others = found == second.end() ? 0 : found->second.size();
    for (std::size_t i = 0; i < std::min(spans.size(), others); ++i) {
      const Span& one = *spans[i];
      const Span& other = *found->second[i];
      if (one.start_ns == other.start_ns && one.end_ns == other.end_ns) continue;
      diff.moved.push_back({key.first, key.second, one.start_ns, one.end_ns, other.start_ns, other.end_ns});
    }
    // The longer list has additional actions, which are not compared.
    diff.only_before += static_cast<std::int64_t>(spans.size() - std::min(spans.size(), others));
    diff.only_after += static_cast<std::int64_t>(others - std::min(spans.size(), others));
  }
  for (const auto& [key, spans] : second) {
    // The loop above has already counted the names that both timelines have.
    if (!first.contains(key)) diff.only_after += std::ssize(spans);
  }
  // The earliest change comes first, because later changes may follow from it.
  std::ranges::stable_sort(diff.moved, {}, &MovedAction::before_start_ns);
}

}  // namespace

ResultDiff diff_results(const Result& before, const Result& after) {
  ResultDiff diff;
  FigureRows rows(diff.figures);
  rows.add("makespan", static_cast<double>(before.makespan_ns), static_cast<double>(after.makespan_ns),
           time_text);
  rows.add("bubble", before.bubble.idle_over_total, after.bubble.idle_over_total, format_percent);
  rows.add("samples/s", before.throughput.samples_per_second, after.throughput.samples_per_second,
           format_rate);
  // The steady rate is absent if the run has no period or if the rate was not requested. An absent rate is
  // not compared, because it does not mean 0.
  const auto& steady = before.throughput.steady_samples_per_second;
  const auto& steady_after = after.throughput.steady_samples_per_second;
  if (steady && steady_after) rows.add("steady samples/s", *steady, *steady_after, format_rate);
  add_ranks(rows, before, after);
  if (!before.timeline.spans.empty() && !after.timeline.spans.empty()) {
    add_actions(diff, before.timeline, after.timeline);
  }
  return diff;
}

std::string to_text(const ResultDiff& diff, std::size_t most_moved) {
  std::string text;
  if (!diff.figures.rows.empty()) text += table_to_text(diff.figures);
  if (!diff.moved.empty()) {
    text += fmt::format("{}{} at another time:\n", text.empty() ? "" : "\n",
                        format_count(std::ssize(diff.moved), "action"));
  }
  const std::size_t shown = std::min(most_moved, diff.moved.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const MovedAction& moved = diff.moved[i];
    text += fmt::format("  rank {} {}: {} .. {} -> {} .. {}\n", moved.rank, moved.action,
                        format_duration(moved.before_start_ns), format_duration(moved.before_end_ns),
                        format_duration(moved.after_start_ns), format_duration(moved.after_end_ns));
  }
  if (shown < diff.moved.size()) text += fmt::format("  and {} more\n", diff.moved.size() - shown);
  if (diff.only_before > 0) text += fmt::format("{} only before\n", format_count(diff.only_before, "action"));
  if (diff.only_after > 0) text += fmt::format("{} only after\n", format_count(diff.only_after, "action"));
  return text;
}

}  // namespace penstock
