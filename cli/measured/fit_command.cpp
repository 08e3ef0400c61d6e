// penstock fit: fits the costs of training on one machine to iterations that were measured there. It prints
// every constant with its name. Then it prints how well the constants predict iterations that were not used
// for the fit. Text and JSON have the same figures.

#include <cmath>
#include <cstddef>
#include <cstdint>
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
#include "cli/measured/runs_command.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/print/table.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/quantities.hpp"
#include "schedules/ir/action.hpp"
#include "sim/hold/fit_iterations.hpp"
#include "sim/hold/predicted_runs.hpp"

namespace penstock {

/// Returns a text with the fitted costs and then their errors. `width` is the longest table line in
/// characters; 0 means no limit.
std::string fit_text(const FitReport& report, std::size_t width);
/// Returns the text of the cost file that `model.fitted` reads: {schema_version, kind: "fit",
/// iteration_costs, fit: {constants, told, groups, held_out, left_out, unpriced_lines}}.
std::string fit_json(const FitReport& report);

namespace {

using Json = nlohmann::ordered_json;

/// Returns a table cell with a time in milliseconds. The cell has no unit, because the heading of its
/// column names it.
Cell time_cell(Ns ns) {
  const double ms = static_cast<double>(ns) * 1e-6;
  return {fmt::format("{:.4f}", ms), ms};
}

/// Returns a table with one row for each kind of layer. A row has the forward and backward time of one
/// layer together, and the time of the embedding and the head together.
Table layers_table(const IterationCosts& costs) {
  Table table;
  table.columns = {"hidden", "heads", "sequence", "tensor", "micro batch", "layer ms", "ends ms"};
  for (const auto& [kind, times] : costs.layers) {
    table.rows.push_back({count_cell(kind.hidden), count_cell(kind.heads), count_cell(kind.sequence),
                          count_cell(kind.tensor), count_cell(kind.micro_batch_size),
                          time_cell(times.layer_ns), time_cell(times.ends_ns)});
  }
  return table;
}

/// Returns a text with the costs of a step (optimizer update) that do not depend on its microbatches. In
/// the text, d is the number of copies that reduce their gradients together.
std::string step_text(const IterationCosts& costs) {
  const auto ms = [](Ns ns) { return static_cast<double>(ns) * 1e-6; };
  std::string text = fmt::format(
      "a step of a device: {:.4f} ms + {:.4f} ms a layer + {:.4f} ms a million parameters (optimizer)\n",
      ms(costs.step.constant_ns), ms(costs.step.layer_ns), ms(costs.step.million_parameters_ns));
  for (const auto& [hidden, million_ns] : costs.step.million_reduced_ns) {
    text += fmt::format(
        "  + hidden {}: {:.4f} ms a million parameters x 2 (d - 1) / d (reduction over d copies)\n", hidden,
        ms(million_ns));
  }
  return text + fmt::format("assumed: vocabulary {}, messages between stages {}\n", costs.vocabulary,
                            costs.link_bytes_per_second > 0
                                ? fmt::format("at {:g} GB/s", costs.link_bytes_per_second / 1e9)
                                : std::string("free"));
}

/// Returns a table of the errors of predicted iterations in three parts. The first part has the groups of
/// iterations that were fitted. The second part has the same iterations with costs that were fitted without
/// them (FitReport::left_out). The third part has iterations with several stages, which were not fitted.
Table errors_of(const FitReport& report) {
  std::vector<RunGroup> groups = report.runs.groups;
  for (const auto& group : {report.left_out, report.held_out}) {
    if (group) groups.push_back(*group);
  }
  return errors_table("iterations", groups);
}

Json group_or_null(const std::optional<RunGroup>& group) {
  return group ? group_json(*group) : Json(nullptr);
}

/// Returns warnings about the limits of the fitted costs. The text is empty if there are none.
std::string doubts_text(const FitReport& report) {
  std::string text;
  if (report.determined < report.constants) {
    text += fmt::format(
        "the rows determine {} of the {} constants; the others are not unique: measure other numbers of "
        "layers, "
        "microbatches and copies as well\n",
        report.determined, report.constants);
  }
  if (!report.unpriced.empty()) {
    text += fmt::format("not predicted, since no row of one stage has such layers: lines {}\n",
                        fmt::join(report.unpriced, ", "));
  }
  if (!report.held_out) text += "no row of several stages: the effect of the pipeline is not tested\n";
  return text;
}

}  // namespace

std::string fit_text(const FitReport& report, std::size_t width) {
  return fmt::format(
      "{}: {} constants, least squares of relative errors, none below 0\n\n"
      "forward and backward of one microbatch; ends: embedding and head\n{}\n{}\n{}{}",
      report.costs.source, report.constants, table_to_text(layers_table(report.costs), width),
      step_text(report.costs), table_to_text(errors_of(report), width), doubts_text(report));
}

std::string fit_json(const FitReport& report) {
  Json groups = Json::array();
  for (const RunGroup& group : report.runs.groups) groups.push_back(group_json(group));
  Json document = {{"schema_version", 1}, {"kind", "fit"}};
  document.update(Json::parse(iteration_costs_to_json(report.costs)));
  document["fit"] = {{"constants", report.constants},
                     {"told", report.determined},
                     {"groups", std::move(groups)},
                     {"held_out", group_or_null(report.held_out)},
                     {"left_out", group_or_null(report.left_out)},
                     {"unpriced_lines", report.unpriced}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

namespace {

/// The vocabulary of GPT-2, 50 257 tokens, padded as Megatron does for 8 devices.
constexpr std::int64_t kVocabulary = 51'200;
constexpr std::int64_t kMostVocabulary = 1 << 28;

struct FitFlags {
  OutputFlags output;
  std::string iterations;
  std::int64_t vocabulary = kVocabulary;
  std::string bandwidth;
};

const std::vector<std::string_view> kFitFiles = {".json", ".csv", ".html", ".txt"};

Outcome fit(const FitFlags& flags) {
  if (auto known = check_output_files(flags.output.files, kFitFiles, {{"the input", flags.iterations}});
      !known)
    return tl::unexpected(known.error());
  const auto iterations = read_iterations(flags.iterations);
  if (!iterations) return bad_input(iterations.error());
  FitAssumptions assumed{.vocabulary = flags.vocabulary};
  if (!flags.bandwidth.empty()) {
    const auto bandwidth = parse_bandwidth(flags.bandwidth);
    if (!bandwidth) return bad_input("--bandwidth: " + bandwidth.error());
    // The word "unlimited" is read as infinity. The fit writes such a bandwidth as 0, which stands for links
    // on which messages take no time.
    if (std::isfinite(*bandwidth)) assumed.link_bytes_per_second = *bandwidth;
  }
  const auto report = fit_iterations(*iterations, assumed);
  if (!report) return bad_input(report.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return fit_json(*report); }},
                                         {".csv", [&] { return runs_csv(report->measured, report->runs); }},
                                         {".html", [&] { return runs_html(report->measured, report->runs); }},
                                         {".txt", [&] { return fit_text(*report, 0); }}};
  const std::string text = flags.output.json ? fit_json(*report) : fit_text(*report, table_width());
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

}  // namespace

Command fit_command(CLI::App& root) {
  Subcommand app(root, "fit", "Fit what training costs on one machine to its measured iterations.");
  const auto flags = std::make_shared<FitFlags>();
  app.add_option("ITERATIONS", flags->iterations,
                 "a row a measured iteration of a GPT: batch, sizes, degrees, seconds; see "
                 "scenarios/library/runs/README.md for the columns")
      .required()
      .type_name("FILE");
  app.add_option("--vocabulary", flags->vocabulary,
                 "size of the vocabulary, which no column states (default: 51200)")
      .range(std::int64_t{1}, kMostVocabulary)
      .type_name("N");
  app.add_option("--bandwidth", flags->bandwidth,
                 "of messages between stages, which rows of one stage do not tell (default: free)")
      .type_name("RATE");
  add_output_flags(app, flags->output, ".json .csv .html .txt");
  app.footer(
      "Costs are fitted on the rows of one stage; rows of several stages are simulated with them and judge\n"
      "them. costs.json is what `model: {fitted: costs.json, ..}` and `penstock runs --costs` take.\n"
      "Examples:\n"
      "  penstock fit scenarios/library/runs/vtrain_iterations.csv\n"
      "  penstock fit scenarios/library/runs/vtrain_iterations.csv --bandwidth 225GB/s -o costs.json\n"
      "  penstock runs scenarios/library/runs/vtrain_iterations.csv --costs costs.json");
  return {app, [flags] { return fit(*flags); }};
}

}  // namespace penstock
