// Writes comparisons and rankings: as tables for terminals and pages, and as text and JSON. compare.cpp
// computes the comparison. An error is always predicted minus measured, so "+" means that the prediction
// was too high. Relative errors are divided by the measured value. JSON has the exact numbers, so that
// scripts do not read rounded figures. Tested by compare_test.cpp.

#include "report/compare/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result_json.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

namespace {

/// Returns the value of a figure as text. The name of the figure says whether the value is a time, bytes, a
/// rate or a fraction.
std::string value_text(const std::string& name, double value, MemoryUnit unit) {
  if (name == "makespan_ns") return period_cell(value).text;
  if (name == "peak_bytes") return format_memory(amount_of_shown(value, unit), unit);
  if (name == "samples_per_second") return format_rate(value);
  return format_percent(value);
}

/// Returns the name that tables show for a figure with this JSON key.
std::string label(const std::string& name) {
  if (name == "makespan_ns") return "iteration time";
  if (name == "idle_over_total") return "bubble (idle / total)";
  if (name == "samples_per_second") return "samples per second";
  if (name == "peak_bytes") return "peak memory";
  if (name == "action_start") return "start of an action, mean";
  return "duration of an action, mean";
}

Cell signed_cell(Ns duration_ns) {
  return {duration_ns == 0 ? "0" : signed_duration(duration_ns), static_cast<double>(duration_ns)};
}

/// Returns the figure with this name, or null if the comparison has none. Makespan and bubble are always
/// present.
const ComparedFigure* find_figure(const Comparison& comparison, std::string_view name) {
  const auto found = std::ranges::find(comparison.figures, name, &ComparedFigure::name);
  return found == comparison.figures.end() ? nullptr : &*found;
}

}  // namespace

std::string signed_duration(Ns duration_ns) {
  return fmt::format("{}{}", duration_ns < 0 ? '-' : '+',
                     format_duration(std::max(duration_ns, -duration_ns)));
}

bool has_values(const ComparedFigure& figure) { return !figure.name.starts_with("action_"); }

Table compared_figures(const Comparison& comparison) {
  Table table{.columns = {"figure", "predicted", "measured", "error", "tolerance", "verdict"}, .rows = {}};
  const MemoryUnit unit = comparison.ranks.empty() ? MemoryUnit::bytes : comparison.ranks.front().memory_unit;
  for (const ComparedFigure& figure : comparison.figures) {
    const bool values = has_values(figure);
    table.rows.push_back({{label(figure.name), {}},
                          {values ? value_text(figure.name, figure.predicted, unit) : "", figure.predicted},
                          {values ? value_text(figure.name, figure.measured, unit) : "", figure.measured},
                          {format_percent(figure.error), figure.error},
                          {figure.tolerance ? format_percent(*figure.tolerance) : "", figure.tolerance},
                          {!figure.tolerance ? ""
                           : figure.passed() ? "ok"
                                             : "BEYOND",
                           {}}});
  }
  return table;
}

Table action_errors(const Comparison& comparison) {
  Table table{.columns = {"action", "count", "predicted", "measured", "start off by", "at most", "there"},
              .rows = {}};
  const auto duration = [](Ns ns) { return Cell{format_duration(ns), static_cast<double>(ns)}; };
  for (const ActionErrors& errors : comparison.actions) {
    table.rows.push_back({{std::string(letters(errors.kind)), {}},
                          {std::to_string(errors.count), static_cast<double>(errors.count)},
                          duration(errors.predicted_duration_ns),
                          duration(errors.measured_duration_ns),
                          duration(errors.mean_start_ns),
                          duration(errors.worst_start_ns),
                          {errors.worst_action, {}}});
  }
  return table;
}

Table rank_errors(const Comparison& comparison) {
  const bool memory = std::ranges::any_of(
      comparison.ranks, [](const RankComparison& rank) { return rank.measured_peak_bytes > 0; });
  Table table{.columns = {"rank", "busy predicted", "measured", "error"}, .rows = {}};
  if (memory) table.columns.insert(table.columns.end(), {"peak predicted", "measured", "error"});
  for (const RankComparison& rank : comparison.ranks) {
    std::vector<Cell> row = {{std::to_string(rank.rank), static_cast<double>(rank.rank)},
                             duration_cell(rank.predicted_busy_ns),
                             duration_cell(rank.measured_busy_ns),
                             signed_cell(rank.predicted_busy_ns - rank.measured_busy_ns)};
    if (memory) {
      const double predicted = shown_amount(rank.predicted_peak_bytes, rank.memory_unit);
      const double measured = shown_amount(rank.measured_peak_bytes, rank.memory_unit);
      const double error = measured > 0 ? (predicted - measured) / measured : 0;
      row.push_back({format_memory(rank.predicted_peak_bytes, rank.memory_unit), predicted});
      row.push_back({format_memory(rank.measured_peak_bytes, rank.memory_unit), measured});
      row.push_back({measured > 0 ? format_percent(error) : "", error});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string error_sentence(const Comparison& comparison) {
  return fmt::format("error of the iteration time {}", signed_duration(comparison.error_ns));
}

Table cause_errors(const Comparison& comparison) {
  Table table{.columns = {"cause", "predicted", "measured", "error"}, .rows = {}};
  for (const BillChange& cause : comparison.causes) {
    const auto cell = [](Ns ns) {
      return Cell{fmt::format("{}{}", ns < 0 ? "-" : "", format_duration(std::abs(ns))),
                  static_cast<double>(ns)};
    };
    table.rows.push_back({text_cell(cause.cause), cell(cause.after_ns), cell(cause.before_ns),
                          signed_cell(cause.after_ns - cause.before_ns)});
  }
  return table;
}

namespace {

/// Returns the cause with the largest error, such as "work -1 ms", or "" if the causes are not known.
std::string largest_cause(const Comparison& comparison) {
  const auto error = [](const BillChange& cause) { return cause.after_ns - cause.before_ns; };
  const auto largest = std::ranges::max_element(
      comparison.causes, {}, [&](const BillChange& cause) { return std::abs(error(cause)); });
  if (largest == comparison.causes.end()) return "";
  return fmt::format("{} {}", largest->cause, signed_duration(error(*largest)));
}

}  // namespace

Table comparison_overview(const std::vector<Comparison>& comparisons) {
  Table table{
      .columns = {"schedule", "predicted", "measured", "error", "bubble error", "largest cause", "verdict"},
      .rows = {}};
  for (const Comparison& comparison : comparisons) {
    const ComparedFigure* time = find_figure(comparison, "makespan_ns");
    const ComparedFigure* bubble = find_figure(comparison, "idle_over_total");
    table.rows.push_back({{comparison.name, {}},
                          period_cell(time->predicted),
                          period_cell(time->measured),
                          {format_percent(time->error), time->error},
                          {format_percent(bubble->error), bubble->error},
                          text_cell(largest_cause(comparison)),
                          {comparison.passed() ? "ok" : "BEYOND", {}}});
  }
  return table;
}

Table ranking_rows(const Ranking& ranking) {
  std::vector<double> predicted;
  predicted.reserve(ranking.runs.size());
  for (const RankedRun& run : ranking.runs) predicted.push_back(run.predicted_ns_per_sample);
  std::ranges::sort(predicted);
  Table table{.columns = {"measured place", "predicted place", "schedule", "measured a sample", "predicted"},
              .rows = {}};
  for (std::size_t i = 0; i < ranking.runs.size(); ++i) {
    const RankedRun& run = ranking.runs[i];
    // If several runs have equal predictions, each of them gets the first of their places.
    const auto place = std::ranges::find(predicted, run.predicted_ns_per_sample) - predicted.begin() + 1;
    const auto duration = [](double ns) { return Cell{format_duration(std::llround(ns)), ns}; };
    table.rows.push_back({{std::to_string(i + 1), static_cast<double>(i + 1)},
                          {std::to_string(place), static_cast<double>(place)},
                          {run.name, {}},
                          duration(run.measured_ns_per_sample),
                          duration(run.predicted_ns_per_sample)});
  }
  return table;
}

std::string ranking_sentence(const Ranking& ranking) {
  return fmt::format("ranked right: {} of {} whose measured times differ by more than {}",
                     ranking.counted_pairs - static_cast<std::int64_t>(ranking.wrong.size()),
                     format_count(ranking.counted_pairs, "pair"), format_percent(ranking.threshold));
}

std::vector<std::string> wrong_ranks(const Ranking& ranking) {
  std::vector<std::string> lines;
  for (const WrongRank& wrong : ranking.wrong) {
    const std::string predicted = wrong.predicted_gap < 0
                                      ? fmt::format("slower by {}", format_percent(-wrong.predicted_gap))
                                      : "as fast";
    lines.push_back(fmt::format("{} was measured to be faster than {} by {}, and predicted to be {}",
                                wrong.faster, wrong.slower, format_percent(wrong.measured_gap), predicted));
  }
  return lines;
}

namespace {

using Json = nlohmann::ordered_json;

Json figure_json(const ComparedFigure& figure) {
  Json object = {{"name", figure.name}};
  if (has_values(figure)) {
    object["predicted"] = figure.predicted;
    object["measured"] = figure.measured;
  }
  object["error"] = figure.error;
  object["tolerance"] = figure.tolerance ? Json(*figure.tolerance) : Json(nullptr);
  object["passed"] = figure.passed();
  return object;
}

Json action_json(const ActionErrors& errors) {
  return {{"kind", std::string(letters(errors.kind))},
          {"count", errors.count},
          {"mean_start_error_ns", errors.mean_start_ns},
          {"worst_start_error_ns", errors.worst_start_ns},
          {"worst_action", errors.worst_action},
          {"predicted_duration_ns", errors.predicted_duration_ns},
          {"measured_duration_ns", errors.measured_duration_ns}};
}

Json rank_json(const RankComparison& rank) {
  return {{"rank", rank.rank},
          {"predicted_busy_ns", rank.predicted_busy_ns},
          {"measured_busy_ns", rank.measured_busy_ns},
          {"predicted_peak_bytes", amount_json<Json>(rank.predicted_peak_bytes, rank.memory_unit)},
          {"measured_peak_bytes", rank.measured_peak_bytes > 0
                                      ? amount_json<Json>(rank.measured_peak_bytes, rank.memory_unit)
                                      : Json(nullptr)}};
}

template <typename Value, typename ToJson>
Json list_json(const std::vector<Value>& values, ToJson to_json) {
  Json list = Json::array();
  for (const Value& value : values) list.push_back(to_json(value));
  return list;
}

Json cause_json(const BillChange& cause) {
  return {{"cause", cause.cause}, {"predicted_ns", cause.after_ns}, {"measured_ns", cause.before_ns}};
}

Json comparison_json(const Comparison& comparison) {
  return {{"schema_version", 1},
          {"passed", comparison.passed()},
          {"schedule", comparison.schedule},
          {"digest", comparison.digest},
          {"channel", comparison.channel},
          {"figures", list_json(comparison.figures, figure_json)},
          {"error_ns", comparison.error_ns},
          {"causes", list_json(comparison.causes, cause_json)},
          {"ranks", list_json(comparison.ranks, rank_json)},
          {"actions", list_json(comparison.actions, action_json)},
          {"notes", comparison.notes}};
}

Json ranking_json(const Ranking& ranking) {
  const auto run = [](const RankedRun& r) {
    return Json{{"name", r.name},
                {"predicted_ns_per_sample", r.predicted_ns_per_sample},
                {"measured_ns_per_sample", r.measured_ns_per_sample}};
  };
  const auto wrong = [](const WrongRank& w) {
    return Json{{"faster", w.faster},
                {"slower", w.slower},
                {"measured_gap", w.measured_gap},
                {"predicted_gap", w.predicted_gap}};
  };
  return {{"passed", ranking.passed()},
          {"threshold", ranking.threshold},
          {"counted_pairs", ranking.counted_pairs},
          {"runs", list_json(ranking.runs, run)},
          {"wrong", list_json(ranking.wrong, wrong)}};
}

}  // namespace

std::string comparison_to_table(const Comparison& comparison, std::size_t width) {
  std::string text = fmt::format("{}, {} channels, digest {:.12}\n\n", comparison.schedule,
                                 comparison.channel, comparison.digest);
  text += table_to_text(compared_figures(comparison), width);
  text += fmt::format("\n{}\n", error_sentence(comparison));
  if (!comparison.causes.empty())
    text += "\nby cause, of the mean rank\n" + table_to_text(cause_errors(comparison), width);
  text += "\nby rank\n" + table_to_text(rank_errors(comparison), width);
  for (const std::string& note : comparison.notes) text += fmt::format("note: {}\n", note);
  if (comparison.actions.empty()) {
    return text + "\nnote: no errors of single actions: write both results with --timeline\n";
  }
  return text + "\nmean durations and errors of the start by kind of action\n" +
         table_to_text(action_errors(comparison), width);
}

std::string comparison_to_json(const Comparison& comparison) {
  return comparison_json(comparison).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string comparisons_to_table(const std::vector<Comparison>& comparisons, const Ranking& ranking,
                                 std::size_t width) {
  std::string text = table_to_text(comparison_overview(comparisons), width) + "\n" +
                     table_to_text(ranking_rows(ranking), width);
  text += fmt::format("\n{}\n", ranking_sentence(ranking));
  for (const std::string& line : wrong_ranks(ranking)) text += fmt::format("WRONG: {}\n", line);
  return text;
}

std::string comparisons_to_json(const std::vector<Comparison>& comparisons, const Ranking& ranking) {
  const bool passed = ranking.passed() && std::ranges::all_of(comparisons, &Comparison::passed);
  const Json document = {{"schema_version", 1},
                         {"passed", passed},
                         {"comparisons", list_json(comparisons, comparison_json)},
                         {"ranking", ranking_json(ranking)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace penstock
