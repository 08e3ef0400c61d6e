// Prints measured runs. A row is one configuration: its measured step, its predicted step, and the error
// predicted / measured - 1, which is negative if the prediction is too fast. Text, JSON and CSV have the same
// figures.

#include "cli/commands/runs_output.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands/run_groups.hpp"
#include "report/print/chart_svg.hpp"
#include "report/print/html_page.hpp"
#include "report/print/palette.hpp"
#include "report/print/table.hpp"
#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"
#include "sim/measured/run_prices.hpp"
#include "sim/tuning/against_best.hpp"
#include "text/escaping.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

/// Returns, for example, "+2.20 %" if the prediction is too long. The sign is always shown.
std::string error_text(double part) { return fmt::format("{:+.2f} %", 100 * part); }
std::string percent_or_nothing(const std::optional<double>& part) { return part ? error_text(*part) : ""; }
std::string gib_or_nothing(const std::optional<double>& amount) {
  return amount ? fmt::format("{:.2f}", *amount) : "";
}

/// Returns the table of rows. Cells of memory are empty if it was not measured.
Table rows_table(const RunsReport& report) {
  Table table;
  table.columns = {"run",          "measured s",    "predicted s",  "error",
                   "measured GiB", "predicted GiB", "error of GiB", "fitted"};
  for (const PredictedRun& row : report.rows) {
    table.rows.push_back({{row.id, std::nullopt},
                          {fmt::format("{:.4f}", row.measured_seconds), row.measured_seconds},
                          {fmt::format("{:.4f}", row.predicted_seconds), row.predicted_seconds},
                          {error_text(row.error), row.error},
                          {gib_or_nothing(row.measured_gib), row.measured_gib},
                          {gib_or_nothing(row.predicted_gib), row.predicted_gib},
                          {percent_or_nothing(row.memory_error), row.memory_error},
                          {row.fitted ? "yes" : "", std::nullopt}});
  }
  return table;
}

/// Returns the table of groups: the groups, then all rows, then peak memory, which has fewer rows.
Table groups_table(const RunsReport& report) {
  std::vector<RunGroup> groups = report.groups;
  for (const auto& group : {report.all, report.all_memory}) {
    if (group) groups.push_back(*group);
  }
  return errors_table("group", groups);
}

/// Returns the table of fitted constants with the number of their rows. "the device" means that the device's
/// own constants are used.
Table constants_table(const RunsReport& report) {
  Table table;
  table.columns = {"source",      "device",        "precision",       "release", "sustained",
                   "collectives", "step fraction", "expert layer ms", "from"};
  for (const GroupConstants& group : report.constants) {
    const DeviceConstants& constants = group.constants;
    const std::string from = group.rows == 0
                                 ? std::string("the device")
                                 : fmt::format("{} rows: {}", group.rows, fmt::join(group.fitted, ", "));
    table.rows.push_back({{group.source, std::nullopt},
                          {group.device, std::nullopt},
                          {group.precision, std::nullopt},
                          {group.release, std::nullopt},
                          {fmt::format("{:.4f}", constants.sustained), constants.sustained},
                          {fmt::format("{:.4f}", constants.collectives), constants.collectives},
                          {fmt::format("{:.4f}", constants.step_fraction), constants.step_fraction},
                          {fmt::format("{:.2f}", constants.expert_layer_ms), constants.expert_layer_ms},
                          {from, std::nullopt}});
  }
  return table;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::vector<std::string> fields;
  fields.reserve(cells.size());
  for (const std::string& cell : cells) fields.push_back(csv_field(cell));
  return fmt::format("{}\n", fmt::join(fields, ","));
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

/// Sources beyond this number reuse colours.
constexpr std::size_t kMostSources = 6;

/// Draws a dot for each row in the colour of its source, and the line on which predictions equal
/// measurements.
Chart scatter(const MeasuredRuns& runs, const RunsReport& report) {
  Chart chart;
  chart.title = "Seconds of a step";
  chart.x_label = "measured";
  chart.y_label = "predicted";
  chart.width = 760;
  chart.height = 420;
  double longest = 0;
  std::vector<std::string> sources;
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const PredictedRun& row = report.rows[i];
    const std::string& source = runs.runs[i].source;
    // Each row is a curve of one dot. The first one of a source carries its name in the legend.
    auto place = std::ranges::find(sources, source);
    const bool is_first = place == sources.end();
    if (is_first) place = sources.insert(sources.end(), source);
    ChartCurve dot{.label = is_first ? source : std::string()};
    dot.colour = curve_colour(static_cast<std::size_t>(place - sources.begin()) % kMostSources, kMostSources);
    dot.dots = true;
    dot.points = {{.x = row.measured_seconds, .y = row.predicted_seconds}};
    chart.curves.push_back(std::move(dot));
    longest = std::max({longest, row.measured_seconds, row.predicted_seconds});
  }
  ChartCurve equal{.label = "equal"};
  equal.dashed = true;
  equal.points = {{.x = 0, .y = 0}, {.x = longest, .y = longest}};
  chart.curves.push_back(std::move(equal));
  return chart;
}

}  // namespace

std::string runs_html(const MeasuredRuns& runs, const RunsReport& report) {
  HtmlPage page;
  page.title = "Measured training steps beside predictions";
  page.body = fmt::format("<p class=\"note\">Errors are predicted / measured - 1.</p>\n{}\n",
                          chart_to_svg(scatter(runs, report)));
  page.body += table_section("Groups", groups_table(report));
  if (!report.classes.empty()) page.body += table_section("Classes", errors_table("class", report.classes));
  page.body += table_section("Constants", constants_table(report));
  page.body += table_section("Rows", rows_table(report));
  return html_page(page);
}

std::string runs_text(const RunsReport& report, std::size_t width) {
  std::string text =
      fmt::format("{}\nerrors are predicted / measured - 1\n\n{}\n", table_to_text(rows_table(report), width),
                  table_to_text(groups_table(report), width));
  // Costs that were fitted to one machine's iterations have no classes.
  if (!report.classes.empty()) text += table_to_text(errors_table("class", report.classes), width) + '\n';
  text += table_to_text(constants_table(report), width);
  for (const LeftOutRun& row : report.left_out)
    text += fmt::format("{}left out: {}\n", &row == report.left_out.data() ? "\n" : "", row.why);
  return text;
}

std::string runs_json(const RunsReport& report) {
  Json document = {{"schema_version", 1}, {"kind", "runs"}};
  document["rows"] = Json::array();
  for (const PredictedRun& row : report.rows) {
    document["rows"].push_back({{"id", row.id},
                                {"measured_seconds", row.measured_seconds},
                                {"predicted_seconds", row.predicted_seconds},
                                {"error", row.error},
                                {"measured_gib", or_null(row.measured_gib)},
                                {"predicted_gib", or_null(row.predicted_gib)},
                                {"memory_error", or_null(row.memory_error)},
                                {"fitted", row.fitted}});
  }
  document["groups"] = Json::array();
  for (const RunGroup& group : report.groups) document["groups"].push_back(group_json(group));
  document["constants"] = Json::array();
  for (const GroupConstants& group : report.constants) {
    document["constants"].push_back({{"source", group.source},
                                     {"device", group.device},
                                     {"precision", group.precision},
                                     {"release", group.release},
                                     {"sustained", group.constants.sustained},
                                     {"collectives", group.constants.collectives},
                                     {"step_fraction", group.constants.step_fraction},
                                     {"expert_layer_ms", group.constants.expert_layer_ms},
                                     {"rows", group.rows},
                                     {"fitted", group.fitted}});
  }
  document["classes"] = Json::array();
  for (const RunGroup& group : report.classes) document["classes"].push_back(group_json(group));
  document["left_out"] = Json::array();
  for (const LeftOutRun& row : report.left_out)
    document["left_out"].push_back({{"line", row.line}, {"id", row.id}, {"why", row.why}});
  if (report.all) document["all"] = group_json(*report.all);
  document["memory"] = report.all_memory ? group_json(*report.all_memory) : Json(nullptr);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

namespace {

/// Returns, for example, "tensor 8 +3.10 %": how much longer the best step with that value is than the best
/// of all.
std::string longer_text(const ChosenValue& value) {
  const std::string longer = value.longer ? error_text(*value.longer) : std::string("does not fit");
  return fmt::format("{} {} {}", value.choice, value.value, longer);
}

/// Returns the two most costly values. A value with which nothing fits counts as most costly. Values below
/// 0.05 % are left out, because the two printed decimals would say little.
std::string costliest(const AgainstBest& row) {
  std::vector<std::string> words;
  for (const ChosenValue& value : row.values) {
    if (words.size() < 2 && value.longer.value_or(1) >= 0.0005) words.push_back(longer_text(value));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::string against_best_text(const std::vector<AgainstBest>& rows, std::size_t width) {
  Table table;
  table.columns = {"run", "predicted s", "best s", "longer", "costs most", "the best has"};
  for (const AgainstBest& row : rows) {
    const double seconds = static_cast<double>(row.step_ns) * kSecondsPerNanosecond;
    const double best = static_cast<double>(row.best_ns) * kSecondsPerNanosecond;
    table.rows.push_back({{row.id, std::nullopt},
                          {fmt::format("{:.4f}", seconds), seconds},
                          {fmt::format("{:.4f}", best), best},
                          {row.in_space ? error_text(row.longer()) : "not in the space", row.longer()},
                          {costliest(row), std::nullopt},
                          {row.best_differs, std::nullopt}});
  }
  return table_to_text(table, width);
}

std::string against_best_json(const std::vector<AgainstBest>& rows) {
  Json document = {{"schema_version", 1}, {"kind", "runs-against-best"}, {"rows", Json::array()}};
  for (const AgainstBest& row : rows) {
    Json values = Json::array();
    for (const ChosenValue& value : row.values)
      values.push_back({{"choice", value.choice}, {"value", value.value}, {"longer", or_null(value.longer)}});
    document["rows"].push_back({{"id", row.id},
                                {"in_space", row.in_space},
                                {"step_seconds", static_cast<double>(row.step_ns) * kSecondsPerNanosecond},
                                {"best_seconds", static_cast<double>(row.best_ns) * kSecondsPerNanosecond},
                                {"longer", row.longer()},
                                {"best_differs", row.best_differs},
                                {"values", std::move(values)}});
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string runs_csv(const MeasuredRuns& runs, const RunsReport& report) {
  std::vector<std::string> header = runs.header;
  header.insert(header.end(), {"predicted_seconds", "error", "predicted_gib", "memory_error", "fitted"});
  std::string text = csv_line(header);
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const PredictedRun& row = report.rows[i];
    const auto number = [](const std::optional<double>& value) {
      return value ? fmt::format("{}", *value) : std::string();
    };
    std::vector<std::string> cells = runs.runs[i].cells;
    cells.insert(cells.end(), {number(row.predicted_seconds), number(row.error), number(row.predicted_gib),
                               number(row.memory_error), row.fitted ? "yes" : "no"});
    text += csv_line(cells);
  }
  return text;
}

}  // namespace penstock
