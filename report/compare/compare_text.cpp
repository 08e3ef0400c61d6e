// Writes comparisons and rankings as text and as JSON. The text consists of the tables of compare_tables.cpp,
// which the pages also show. JSON contains exact numbers, so that scripts do not read rounded figures. Tests:
// compare_test.cpp.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/compare/compare.hpp"
#include "report/compare/compare_tables.hpp"
#include "report/print/table.hpp"
#include "report/result/json_text.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
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

Json parts_json(const ErrorParts& parts) {
  return {{"makespan_ns", parts.makespan_ns},
          {"compute_ns", parts.compute_ns},
          {"transfer_ns", parts.transfer_ns},
          {"launch_ns", parts.launch_ns ? Json(*parts.launch_ns) : Json(nullptr)},
          {"waiting_ns", parts.waiting_ns}};
}

Json rank_json(const RankComparison& rank) {
  return {{"rank", rank.rank},
          {"parts", parts_json(rank.parts)},
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

Json comparison_json(const Comparison& comparison) {
  return {{"schema_version", 1},
          {"passed", comparison.passed()},
          {"schedule", comparison.schedule},
          {"digest", comparison.digest},
          {"channel", comparison.channel},
          {"figures", list_json(comparison.figures, figure_json)},
          {"parts", parts_json(comparison.parts)},
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
  text += fmt::format("\n{}\n", parts_sentence(comparison));
  text += "\nby rank, predicted minus measured\n" + table_to_text(rank_errors(comparison), width);
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
