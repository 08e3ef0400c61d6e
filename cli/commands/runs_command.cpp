// penstock runs: training steps that were measured on real machines, beside what is predicted for them.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/runs_output.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"

namespace penstock {
namespace {

struct RunsFlags {
  OutputFlags output;
  std::string runs;
  std::string fit;
};

const std::vector<std::string_view> kSuffixes = {".json", ".csv", ".html", ".txt"};

Outcome predict(const RunsFlags& flags) {
  if (auto known = check_output_files(flags.output.files, kSuffixes); !known)
    return tl::unexpected(known.error());
  const auto runs = read_measured_runs(flags.runs);
  if (!runs) return bad_input(runs.error());
  std::optional<MeasuredRuns> fitted_on;
  if (!flags.fit.empty()) {
    auto read = read_measured_runs(flags.fit);
    if (!read) return bad_input(read.error());
    fitted_on = *std::move(read);
  }
  ProgressBar bar(!flags.output.quiet && stderr_is_terminal() ? ProgressDisplay::on : ProgressDisplay::off);
  const auto report = predict_runs(*runs, fitted_on ? &*fitted_on : nullptr,
                                   [&](std::size_t done, std::size_t all) { bar.show(done, all); });
  if (!report) return bad_input(report.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return runs_json(*report); }},
                                         {".csv", [&] { return runs_csv(*runs, *report); }},
                                         {".html", [&] { return runs_html(*runs, *report); }},
                                         {".txt", [&] { return runs_text(*report, 0); }}};
  const std::string text = flags.output.json ? runs_json(*report) : runs_text(*report, table_width());
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
         "fit at most three constants a source, device and precision on this file's rows, in place of the "
         "devices' own: sustained rate of products, collectives that nothing hides, exposed part of the "
         "reduction")
      .type_name("FILE");
  add_output_flags(app, flags->output, ".json .csv .html .txt");
  app.footer(
      "Examples:\n"
      "  penstock runs scenarios/library/runs/training_steps.csv\n"
      "  penstock runs scenarios/library/runs/training_steps.csv -o runs.html\n"
      "  penstock runs new.csv --fit scenarios/library/runs/training_steps.csv -o predicted.csv");
  return {app, [flags] { return predict(*flags); }};
}

}  // namespace penstock
