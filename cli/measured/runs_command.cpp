// penstock runs: compares training steps that were measured on real machines with their predictions. Each row
// is one configuration. Its error is predicted / measured - 1, which is negative if the prediction is too
// short. Text, JSON and CSV contain the same figures. Errors are also given for groups of rows:
//
//     group     rows  mean |error|  mean error   worst
//     MLPerf       8        1.02 %     -0.31 %  +2.20 %

#include "cli/measured/runs_command.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/print/chart_svg.hpp"
#include "report/print/html_page.hpp"
#include "report/print/palette.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/tune_questions.hpp"
#include "sim/hold/fit_iterations.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/run_accuracy.hpp"
#include "text/escaping.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

Cell error_cell(double part) { return {fmt::format("{:+.2f} %", 100 * part), part}; }

}  // namespace

Table errors_table(std::string_view heading, const std::vector<RunGroup>& groups) {
  Table table;
  table.columns = {std::string(heading), "rows", "mean |error|", "mean error", "worst"};
  for (const RunGroup& group : groups) {
    table.rows.push_back({{group.name, std::nullopt},
                          count_cell(static_cast<std::int64_t>(group.rows)),
                          {fmt::format("{:.2f} %", 100 * group.mape), group.mape},
                          error_cell(group.bias),
                          error_cell(group.worst)});
  }
  return table;
}

nlohmann::ordered_json group_json(const RunGroup& group) {
  return {{"name", group.name},
          {"rows", group.rows},
          {"mape", group.mape},
          {"bias", group.bias},
          {"worst", group.worst}};
}

namespace {

using Json = nlohmann::ordered_json;

/// Returns a relative error as text with its sign, such as "+2.20 %" for a prediction that is too long.
std::string error_text(double part) { return fmt::format("{:+.2f} %", 100 * part); }
std::string percent_or_nothing(const std::optional<double>& part) { return part ? error_text(*part) : ""; }
std::string gib_or_nothing(const std::optional<double>& amount) {
  return amount ? fmt::format("{:.2f}", *amount) : "";
}

/// Returns the table of measured runs and their predictions, with one row for each run. The cells about
/// memory are empty for runs whose memory was not measured.
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

/// Returns the table of errors for groups of rows. After the groups come a line for all rows and a line for
/// peak memory. Fewer rows have a measured memory.
Table groups_table(const RunsReport& report) {
  std::vector<RunGroup> groups = report.groups;
  for (const auto& group : {report.all, report.all_memory}) {
    if (group) groups.push_back(*group);
  }
  return errors_table("group", groups);
}

/// Returns the source of a group, with its framework if neither the source nor the default names it.
std::string source_text(const GroupConstants& group) {
  const std::string_view framework = to_text(group.framework);
  if (group.framework == Framework::megatron_te || group.source == framework) return group.source;
  return fmt::format("{} {}", group.source, framework);
}

/// Returns the names of a group's fitted constants. Those that stopped at a bound of the fit are marked.
std::string fitted_text(const GroupConstants& group) {
  std::vector<std::string> names;
  for (const std::string& name : group.fitted) {
    const bool stopped = std::ranges::find(group.stopped, name) != group.stopped.end();
    names.push_back(stopped ? name + " (at its bound)" : name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Returns the table of fitted constants, each with the number of rows to which it was fitted. The words
/// "the device" mean that the constants of the device are used unchanged.
Table constants_table(const RunsReport& report) {
  Table table;
  table.columns = {"source",        "device",        "precision",     "release",   "sustained", "collectives",
                   "step fraction", "expert factor", "host layer ms", "action ms", "step ms",   "from"};
  for (const GroupConstants& group : report.constants) {
    const DeviceConstants& constants = group.constants;
    const std::string from = group.rows == 0 ? std::string("the device")
                                             : fmt::format("{} rows: {}", group.rows, fitted_text(group));
    table.rows.push_back({{source_text(group), std::nullopt},
                          {group.device, std::nullopt},
                          {group.precision, std::nullopt},
                          {group.release, std::nullopt},
                          {fmt::format("{:.4f}", constants.sustained), constants.sustained},
                          {fmt::format("{:.4f}", constants.collectives), constants.collectives},
                          {fmt::format("{:.4f}", constants.step_fraction), constants.step_fraction},
                          {fmt::format("{:.4f}", constants.expert_factor), constants.expert_factor},
                          {fmt::format("{:.1f}", constants.host_layer_ms), constants.host_layer_ms},
                          {fmt::format("{:.2f}", constants.action_ms), constants.action_ms},
                          {fmt::format("{:.1f}", constants.step_ms), constants.step_ms},
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

/// The number of sources that get different colours in the chart. Further sources use the same colours
/// again.
constexpr std::size_t kMostSources = 8;

/// The largest relative error inside the band that the chart shows around the line of equal steps.
constexpr double kBand = 0.1;

/// Returns the corners of the band in the chart in which predictions differ from measurements by at most
/// kBand. It goes from the shortest to the longest step.
std::vector<ChartPoint> band_corners(double shortest, double longest) {
  const double low = 1 - kBand;
  const double high = 1 + kBand;
  return {{.x = shortest, .y = shortest * low},
          {.x = shortest, .y = shortest * high},
          {.x = longest, .y = longest * high},
          {.x = longest, .y = longest * low}};
}

/// Returns a chart of predicted over measured steps, with a dot for each row in the colour of its source. A
/// line shows where predictions equal measurements. Steps take from a tenth of a second to minutes, so both
/// axes are logarithmic.
Chart scatter(const MeasuredRuns& runs, const RunsReport& report) {
  Chart chart;
  chart.title = "Seconds of a step";
  chart.x_label = "measured";
  chart.y_label = "predicted";
  chart.x_scale = AxisScale::log2;
  chart.y_scale = AxisScale::log2;
  chart.width = 760;
  chart.height = 480;
  double shortest = std::numeric_limits<double>::infinity();
  double longest = 0;
  std::vector<std::string> sources;
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const PredictedRun& row = report.rows[i];
    const std::string& source = runs.runs[i].source;
    // Each row is a curve with one dot. Only the first row of a source has a name for the legend.
    auto place = std::ranges::find(sources, source);
    const bool is_first = place == sources.end();
    if (is_first) place = sources.insert(sources.end(), source);
    ChartCurve dot{.label = is_first ? source : std::string()};
    dot.colour = curve_colour(static_cast<std::size_t>(place - sources.begin()) % kMostSources, kMostSources);
    dot.dots = true;
    dot.points = {{.x = row.measured_seconds, .y = row.predicted_seconds, .name = row.id}};
    chart.curves.push_back(std::move(dot));
    shortest = std::min({shortest, row.measured_seconds, row.predicted_seconds});
    longest = std::max({longest, row.measured_seconds, row.predicted_seconds});
  }
  if (report.rows.empty()) return chart;
  // The axes leave some space around the dots, so that no dot lies on an axis.
  constexpr double kMargin = 1.15;
  shortest /= kMargin;
  longest *= kMargin;
  constexpr Colour kGrey{.red = 226, .green = 232, .blue = 240};
  chart.areas = {{.label = fmt::format("within {:.0f} %", 100 * kBand),
                  .colour = kGrey,
                  .corners = band_corners(shortest, longest)}};
  ChartCurve equal{.label = "equal"};
  equal.dashed = true;
  equal.points = {{.x = shortest, .y = shortest}, {.x = longest, .y = longest}};
  chart.curves.push_back(std::move(equal));
  return chart;
}

/// Returns the answer with which the page begins. It says how far predictions are from measurements, how
/// many are near, and which one is worst.
std::string answer_html(const RunsReport& report) {
  if (!report.all) return "<p class=\"alarm\">No row of the file can be predicted.</p>\n";
  const RunGroup& all = *report.all;
  const auto is_near = [](const PredictedRun& row) { return std::abs(row.error) <= kBand; };
  const auto near = std::ranges::count_if(report.rows, is_near);
  const PredictedRun& worst =
      *std::ranges::max_element(report.rows, {}, [](const PredictedRun& row) { return std::abs(row.error); });
  std::string html = fmt::format(
      "<p class=\"answer\"><strong>Predicted steps differ from measured steps by {:.2f} %</strong> on "
      "average "
      "over {}. {} of them are within {:.0f} %.</p>\n<p>The mean error is {}. The worst row is {} with {}.",
      100 * all.mape, format_count(static_cast<std::int64_t>(all.rows), "row"), near, 100 * kBand,
      error_text(all.bias), xml_escaped(worst.id), error_text(worst.error));
  if (report.all_memory) {
    html += fmt::format(" Peak memory differs by {:.2f} % on average over {}.", 100 * report.all_memory->mape,
                        format_count(static_cast<std::int64_t>(report.all_memory->rows), "row"));
  }
  return html + "</p>\n";
}

}  // namespace

std::string runs_html(const MeasuredRuns& runs, const RunsReport& report) {
  HtmlPage page;
  page.title = "Measured training steps beside predictions";
  page.body = answer_html(report);
  page.body += fmt::format(
      "<p class=\"note\">Errors are predicted / measured - 1. Both axes are logarithmic.</p>\n{}\n",
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
  // Costs that were fitted to iterations of one machine have no classes.
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
                                     {"framework", to_text(group.framework)},
                                     {"device", group.device},
                                     {"precision", group.precision},
                                     {"release", group.release},
                                     {"sustained", group.constants.sustained},
                                     {"collectives", group.constants.collectives},
                                     {"step_fraction", group.constants.step_fraction},
                                     {"expert_factor", group.constants.expert_factor},
                                     {"host_layer_ms", group.constants.host_layer_ms},
                                     {"action_ms", group.constants.action_ms},
                                     {"step_ms", group.constants.step_ms},
                                     {"rows", group.rows},
                                     {"fitted", group.fitted},
                                     {"stopped", group.stopped}});
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

/// Returns a text about one chosen value, such as "tensor 8 +3.10 %". The number says how much longer the
/// best step with this value is than the best of all steps.
std::string longer_text(const ChosenValue& value) {
  const std::string longer = value.longer ? error_text(*value.longer) : std::string("does not fit");
  return fmt::format("{} {} {}", value.choice, value.value, longer);
}

/// Returns a text with the two chosen values that lengthen the step most. A value with which no
/// configuration fits counts as the most costly. Values below 0.05 % are omitted, because the output has
/// only two decimals.
std::string costliest(const AgainstBest& row) {
  std::vector<std::string> words;
  for (const ChosenValue& value : row.values) {
    if (words.size() < 2 && value.longer.value_or(1) >= 0.0005) words.push_back(longer_text(value));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

namespace {

double seconds_of(Ns time_ns) { return static_cast<double>(time_ns) * kSecondsPerNanosecond; }

/// Returns a text about the part of the step that a better configuration shortens most, such as "bubble
/// -0.412 s of -0.530 s". The second number is the change of the whole step.
std::string through_text(const AgainstBest& row, const BestClaim& claim) {
  if (!row.best || row.step_ns <= row.best_ns) return "";
  const auto part = static_cast<std::size_t>(claim.through);
  return fmt::format("{} {:+.3f} s of {:+.3f} s", to_text(claim.through), claim.best[part] - claim.own[part],
                     seconds_of(row.best_ns) - seconds_of(row.step_ns));
}

std::string longer_cell(const AgainstBest& row) {
  if (!row.best) return "no answer in time";
  if (!row.in_space) return "not in the space";
  return fmt::format("{}{}", error_text(row.longer()), row.stopped ? " or more" : "");
}

}  // namespace

std::string against_best_text(const std::vector<AgainstBest>& rows, const std::vector<BestClaim>& claims,
                              std::size_t width) {
  Table table;
  table.columns = {"run", "predicted s", "best s", "longer", "through", "costs most", "the best has"};
  std::string notes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const AgainstBest& row = rows[i];
    const double seconds = seconds_of(row.step_ns);
    const double best = seconds_of(row.best_ns);
    table.rows.push_back({{row.id, std::nullopt},
                          {fmt::format("{:.4f}", seconds), seconds},
                          {fmt::format("{:.4f}", best), best},
                          {longer_cell(row), row.longer()},
                          {through_text(row, claims[i]), std::nullopt},
                          {costliest(row), std::nullopt},
                          {row.best_differs, std::nullopt}});
    if (!claims[i].note.empty()) notes += fmt::format("{}: {}\n", shown_name(row.id), claims[i].note);
  }
  return table_to_text(table, width) + (notes.empty() ? "" : '\n' + notes);
}

std::string against_best_json(const std::vector<AgainstBest>& rows, const std::vector<BestClaim>& claims) {
  Json document = {{"schema_version", 1}, {"kind", "runs-against-best"}, {"rows", Json::array()}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const AgainstBest& row = rows[i];
    const BestClaim& claim = claims[i];
    Json values = Json::array();
    for (const ChosenValue& value : row.values)
      values.push_back({{"choice", value.choice}, {"value", value.value}, {"longer", or_null(value.longer)}});
    Json parts = Json::array();
    for (std::size_t part = 0; part < kStepParts; ++part) {
      parts.push_back({{"name", words_of<StepPart>()[part]},
                       {"seconds", claim.own[part]},
                       {"best_seconds", claim.best[part]}});
    }
    document["rows"].push_back({{"id", row.id},
                                {"in_space", row.in_space},
                                {"step_seconds", seconds_of(row.step_ns)},
                                {"best_seconds", seconds_of(row.best_ns)},
                                {"longer", row.longer()},
                                {"stopped", row.stopped},
                                {"through", to_text(claim.through)},
                                {"best_measured", claim.is_best_measured},
                                {"note", claim.note.empty() ? Json(nullptr) : Json(claim.note)},
                                {"believable", claim.is_believable},
                                {"best_differs", row.best_differs},
                                {"parts", std::move(parts)},
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

namespace {

struct RunsFlags {
  OutputFlags output;
  std::string runs;
  std::string fit;
  std::string costs;
  std::vector<std::string> products;  // each of the form DEVICE=FILE
  bool best = false;
  double best_seconds = 60;
  bool explain = false;
  bool pairs = false;
};

const std::vector<std::string_view> kRunsFiles = {".json", ".csv", ".html", ".txt"};
const std::vector<std::string_view> kBestFiles = {".json", ".txt"};
const std::vector<std::string_view> kExplainedFiles = {".json", ".csv", ".txt"};

std::vector<FileArgument> inputs_of(const RunsFlags& flags) {
  std::vector<FileArgument> inputs = {
      {"the input", flags.runs}, {"--fit", flags.fit}, {"--costs", flags.costs}};
  for (const std::string& products : flags.products)
    inputs.push_back({"--products", products.substr(products.find('=') + 1)});
  return inputs;
}

/// The rows of measured runs together with their predictions.
struct JudgedRuns {
  std::shared_ptr<const MeasuredRuns> runs;
  RunsReport report;
  PricedRuns priced{};  ///< no prices, if the costs were fitted to iterations
};

/// Returns the kernel tables of devices. The user's files replace the built-in tables of matrix products.
/// Returns an error for an unknown device or a file that is not a table of products.
tl::expected<KernelsOf, UserError> kernels_of(const std::vector<std::string>& products) {
  std::map<std::string, std::shared_ptr<const KernelTables>> own;
  for (const std::string& one : products) {
    const std::size_t end = one.find('=');
    const DeviceType* device = find_device_type(one.substr(0, end));
    if (end == std::string::npos || device == nullptr) {
      return bad_input(
          fmt::format("--products {}: expected DEVICE=FILE with a device of {}, as in b200-sxm=products.csv",
                      one, device_type_names()));
    }
    const std::string file = one.substr(end + 1);
    const auto text = read_text_file(file, file);
    if (!text) return bad_input(text.error());
    auto tables = std::make_shared<KernelTables>(*built_in_kernels(*device));
    if (const auto read = tables->read_products(*text); !read)
      return bad_input(fmt::format("{}:{}", file, read.error()));
    own[device->name] = std::move(tables);
  }
  return [own = std::move(own)](const DeviceType& device) {
    const auto found = own.find(device.name);
    return found == own.end() ? built_in_kernels(device) : found->second;
  };
}

/// Predicts the measured rows with the constants of their devices. With --fit, the constants are fitted to
/// the rows of that file, which may be the same file.
tl::expected<JudgedRuns, UserError> by_devices(const RunsFlags& flags) {
  const auto kernels = kernels_of(flags.products);
  if (!kernels) return tl::unexpected(kernels.error());
  auto read = read_measured_runs(flags.runs, *kernels);
  if (!read) return bad_input(read.error());
  JudgedRuns judged{.runs = std::make_shared<const MeasuredRuns>(*std::move(read)), .report = {}};
  MeasuredRuns fitted_on;
  // If the fit uses the same file, each row is priced only once.
  const bool is_other = !flags.fit.empty() && flags.fit != flags.runs;
  if (is_other) {
    auto others = read_measured_runs(flags.fit, *kernels);
    if (!others) return bad_input(others.error());
    fitted_on = *std::move(others);
  }
  ProgressBar bar(display_for(flags.output));
  std::atomic<std::size_t> done = 0;
  const auto one_done = [&] { bar.show(++done, judged.runs->runs.size() + fitted_on.runs.size()); };
  auto priced = price_runs(*judged.runs, one_done);
  if (!priced) return bad_input(priced.error());
  judged.priced = *std::move(priced);
  if (is_other) {
    const auto others = price_runs(fitted_on, one_done);
    if (!others) return bad_input(others.error());
    judged.report = predict_runs(judged.priced, &*others);
  } else {
    judged.report = predict_runs(judged.priced, flags.fit.empty() ? nullptr : &judged.priced);
  }
  return judged;
}

/// Predicts measured iterations of one machine, with costs that `penstock fit` wrote.
tl::expected<JudgedRuns, UserError> by_costs(const RunsFlags& flags) {
  if (!flags.fit.empty()) return bad_input("runs: expected either --fit or --costs, got both");
  if (!flags.products.empty())
    return bad_input("runs: --costs has nothing to do with devices: leave --products out");
  const auto iterations = read_iterations(flags.runs);
  if (!iterations) return bad_input(iterations.error());
  auto costs = load_iteration_costs(flags.costs, flags.costs);
  if (!costs) return bad_input(costs.error());
  auto runs = std::make_shared<const MeasuredRuns>(
      runs_with(*iterations, std::make_shared<const IterationCosts>(*std::move(costs))));
  auto report = predict_iterations(*runs, std::vector<bool>(runs->runs.size(), false));
  if (!report) return bad_input(fmt::format("{}: {}", flags.runs, report.error()));
  return JudgedRuns{.runs = std::move(runs), .report = *std::move(report)};
}

/// Compares each run with the best configuration that tune() finds for the same model and cluster.
Outcome compare_with_best(const RunsFlags& flags) {
  if (!flags.fit.empty() || !flags.costs.empty())
    return bad_input("runs: --best takes the devices' own constants: leave --fit and --costs out");
  if (auto known = check_output_files(flags.output.files, kBestFiles, inputs_of(flags)); !known)
    return tl::unexpected(known.error());
  const auto judged = by_devices(flags);
  if (!judged) return tl::unexpected(judged.error());
  const MeasuredRuns& runs = *judged->runs;
  ProgressBar bar(display_for(flags.output));
  const auto rows = against_best(
      runs.runs, [&](std::size_t done, std::size_t all) { bar.show(done, all); }, flags.best_seconds);
  if (!rows) return bad_input(rows.error());
  const auto claims = best_claims(runs, judged->report, *rows);
  if (!claims) return bad_input(claims.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return against_best_json(*rows, *claims); }},
                                         {".txt", [&] { return against_best_text(*rows, *claims, 0); }}};
  const std::string text = flags.output.json ? against_best_json(*rows, *claims)
                                             : against_best_text(*rows, *claims, table_width());
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

/// Prints which parts of the step explain the error of each row.
Outcome explain(const RunsFlags& flags) {
  if (!flags.costs.empty())
    return bad_input("runs: --explain divides prices of devices into parts: leave --costs out");
  if (auto known = check_output_files(flags.output.files, kExplainedFiles, inputs_of(flags)); !known)
    return tl::unexpected(known.error());
  const auto judged = by_devices(flags);
  if (!judged) return tl::unexpected(judged.error());
  const auto& [runs, report, priced] = *judged;
  const std::vector<ExplainedRun> explained = explain_runs(priced, report);
  const std::vector<OutputForm> forms = {
      {".json", [&] { return explained_json(*runs, report, explained); }},
      {".csv", [&] { return explained_csv(*runs, report, explained); }},
      {".txt", [&] { return explained_text(*runs, report, explained, 0); }}};
  const std::string text = flags.output.json ? explained_json(*runs, report, explained)
                                             : explained_text(*runs, report, explained, table_width());
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

/// Prints which pairs of rows the predictions put in the right order.
Outcome compare_pairs(const RunsFlags& flags) {
  if (!flags.costs.empty()) return bad_input("runs: --pairs compares runs on devices: leave --costs out");
  if (auto known = check_output_files(flags.output.files, kBestFiles, inputs_of(flags)); !known)
    return tl::unexpected(known.error());
  const auto judged = by_devices(flags);
  if (!judged) return tl::unexpected(judged.error());
  const MeasuredRuns& runs = *judged->runs;
  const std::vector<RunPair> pairs = run_pairs(runs, judged->report);
  const std::vector<OutputForm> forms = {{".json", [&] { return pairs_json(runs, pairs); }},
                                         {".txt", [&] { return pairs_text(runs, pairs, 0); }}};
  const std::string text =
      flags.output.json ? pairs_json(runs, pairs) : pairs_text(runs, pairs, table_width());
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

Outcome predict(const RunsFlags& flags) {
  if (auto known = check_output_files(flags.output.files, kRunsFiles, inputs_of(flags)); !known)
    return tl::unexpected(known.error());
  const auto judged = flags.costs.empty() ? by_devices(flags) : by_costs(flags);
  if (!judged) return tl::unexpected(judged.error());
  const MeasuredRuns& runs = *judged->runs;
  const RunsReport& report = judged->report;
  const std::vector<OutputForm> forms = {{".json", [&] { return runs_json(report); }},
                                         {".csv", [&] { return runs_csv(runs, report); }},
                                         {".html", [&] { return runs_html(runs, report); }},
                                         {".txt", [&] { return runs_text(report, 0); }}};
  const std::string text = flags.output.json ? runs_json(report) : runs_text(report, table_width());
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command runs_command(CLI::App& root) {
  Subcommand app(root, "runs", "Hold predictions against measured training steps of real machines.");
  const auto flags = std::make_shared<RunsFlags>();
  app.add_option("RUNS", flags->runs,
                 "a row a measured configuration: model, device, degrees, batch, seconds, GiB; see "
                 "scenarios/library/runs/README.md for the columns")
      .required()
      .type_name("FILE");
  app.add_option(
         "--fit", flags->fit,
         "fit constants a source, device and precision on this file's rows, in place of the devices' "
         "own, where the rows show them: sustained rate of products, collectives that nothing hides, "
         "exposed part of the reduction, time beside an action and a step, slowdown of layers of experts")
      .type_name("FILE");
  app.add_option(
         "--costs", flags->costs,
         "what `penstock fit` made; RUNS then has the columns that it takes, and nothing of devices is asked")
      .type_name("FILE");
  app.add_option("--products", flags->products,
                 "matrix products as a machine of this device ran them in training, in place of the device's "
                 "tables and sustained rate where a shape is there; may be repeated")
      .type_name("DEVICE=FILE");
  const Flag best = app.add_flag("--best", flags->best,
                                 "for each run also the best that `penstock tune` finds for its model, "
                                 "devices and batch, the part of the "
                                 "step that it shortens, the cost of the run's own choices, and whether a "
                                 "gain of over 5 % is believable");
  app.add_option("--best-seconds", flags->best_seconds,
                 "seconds after which --best stops the search for a run (default 60)")
      .range(0.1, 86'400.0)
      .type_name("SECONDS");
  app.add_flag(
         "--explain", flags->explain,
         "for each run an interval of its step, the parts of the prediction, and the factor on each part "
         "that would explain the error")
      .excludes(best);
  app.add_flag("--pairs", flags->pairs,
               "how many pairs of runs of the same job, whose steps differ by over 3 %, are predicted in the "
               "right order, and which are not")
      .excludes(best);
  add_output_flags(app, flags->output, ".json .csv .html .txt");
  app.footer(
      "Examples:\n"
      "  penstock runs scenarios/library/runs/training_steps.csv\n"
      "  penstock runs scenarios/library/runs/training_steps.csv -o runs.html\n"
      "  penstock runs scenarios/library/runs/training_steps.csv --explain\n"
      "  penstock runs scenarios/library/runs/training_steps.csv --pairs\n"
      "  penstock runs scenarios/library/runs/training_steps.csv \\\n"
      "    --products b200-sxm=scenarios/library/kernels/products_B200.csv\n"
      "  penstock runs new.csv --fit scenarios/library/runs/training_steps.csv -o predicted.csv");
  return {app, [flags] {
            if (flags->best) return compare_with_best(*flags);
            if (flags->explain) return explain(*flags);
            return flags->pairs ? compare_pairs(*flags) : predict(*flags);
          }};
}

}  // namespace penstock
