// A Comparison as a table and as JSON.

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/compare.hpp"
#include "report/table.hpp"
#include "report/units.hpp"
#include "schedules/action.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

std::string signed_duration(Ns duration_ns) {
  return (duration_ns < 0 ? "-" : "+") + format_duration(duration_ns < 0 ? -duration_ns : duration_ns);
}

std::string value_text(const std::string& name, double value) {
  if (name == "makespan_ns") return format_duration(static_cast<Ns>(value));
  if (name == "peak_bytes") return format_bytes(static_cast<Bytes>(value));
  if (name == "samples_per_second") return format_rate(value);
  return format_percent(value);
}

std::string label(const std::string& name) {
  if (name == "makespan_ns") return "iteration time";
  if (name == "idle_over_total") return "bubble (idle / total)";
  if (name == "samples_per_second") return "samples per second";
  if (name == "peak_bytes") return "peak memory";
  if (name == "action_start") return "start of an action, mean";
  return "duration of an action, mean";
}

bool has_values(const ComparedFigure& figure) { return !figure.name.starts_with("action_"); }

Table figure_table(const Comparison& comparison) {
  Table table{.columns = {"figure", "predicted", "measured", "error", "tolerance", "verdict"}, .rows = {}};
  for (const ComparedFigure& figure : comparison.figures) {
    const bool values = has_values(figure);
    table.rows.push_back({{label(figure.name), {}},
                          {values ? value_text(figure.name, figure.predicted) : "", figure.predicted},
                          {values ? value_text(figure.name, figure.measured) : "", figure.measured},
                          {format_percent(figure.error), figure.error},
                          {figure.tolerance ? format_percent(*figure.tolerance) : "", figure.tolerance},
                          {!figure.tolerance ? ""
                           : figure.passed() ? "ok"
                                             : "BEYOND",
                           {}}});
  }
  return table;
}

Table action_table(const Comparison& comparison) {
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

}  // namespace

std::string comparison_to_table(const Comparison& comparison) {
  std::string text = fmt::format("{}, {} channels, digest {:.12}\n\n", comparison.schedule,
                                 comparison.channel, comparison.digest);
  text += table_to_text(figure_table(comparison));
  const ErrorParts& parts = comparison.parts;
  text += fmt::format(
      "\nerror of the iteration time {}: compute {}, exposed transfers {}, waiting and launch {}\n",
      signed_duration(parts.makespan_ns), signed_duration(parts.compute_ns),
      signed_duration(parts.transfer_ns), signed_duration(parts.waiting_ns));
  if (comparison.actions.empty()) {
    return text + "\nnote: no errors of single actions: write both results with --timeline\n";
  }
  return text + "\nmean durations and errors of the start by kind of action\n" +
         table_to_text(action_table(comparison));
}

std::string comparison_to_json(const Comparison& comparison) {
  Json figures = Json::array();
  for (const ComparedFigure& figure : comparison.figures) figures.push_back(figure_json(figure));
  Json actions = Json::array();
  for (const ActionErrors& errors : comparison.actions) actions.push_back(action_json(errors));
  const Json document = {{"schema_version", 1},
                         {"passed", comparison.passed()},
                         {"schedule", comparison.schedule},
                         {"digest", comparison.digest},
                         {"channel", comparison.channel},
                         {"figures", std::move(figures)},
                         {"parts",
                          {{"makespan_ns", comparison.parts.makespan_ns},
                           {"compute_ns", comparison.parts.compute_ns},
                           {"transfer_ns", comparison.parts.transfer_ns},
                           {"waiting_ns", comparison.parts.waiting_ns}}},
                         {"actions", std::move(actions)}};
  return document.dump(2) + "\n";
}

}  // namespace penstock
