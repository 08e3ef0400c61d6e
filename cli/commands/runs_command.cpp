// penstock runs: compares training steps that were measured on real machines with their predictions.

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/runs_output.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/kernel_library.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_fitted.hpp"
#include "sim/measured/fit_iterations.hpp"
#include "sim/measured/measured_iterations.hpp"
#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"
#include "sim/tuning/against_best.hpp"
#include "topology/device_types.hpp"

namespace penstock {
namespace {

struct RunsFlags {
  OutputFlags output;
  std::string runs;
  std::string fit;
  std::string costs;
  std::vector<std::string> products;  // each DEVICE=FILE
  bool best = false;
};

const std::vector<std::string_view> kRunsFiles = {".json", ".csv", ".html", ".txt"};
const std::vector<std::string_view> kBestFiles = {".json", ".txt"};

std::vector<FileArgument> inputs_of(const RunsFlags& flags) {
  std::vector<FileArgument> inputs = {
      {"the input", flags.runs}, {"--fit", flags.fit}, {"--costs", flags.costs}};
  for (const std::string& products : flags.products)
    inputs.push_back({"--products", products.substr(products.find('=') + 1)});
  return inputs;
}

/// Rows and their predictions.
struct JudgedRuns {
  MeasuredRuns runs;
  RunsReport report;
};

/// Returns the built-in tables of devices, with matrix products replaced by those of the user's files. Error:
/// an unknown device, or a file that is no table of products.
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

/// Predicts with the constants of devices. With --fit it uses constants that are fitted on that file's rows,
/// which may be the same file.
tl::expected<JudgedRuns, UserError> by_devices(const RunsFlags& flags) {
  const auto kernels = kernels_of(flags.products);
  if (!kernels) return tl::unexpected(kernels.error());
  auto runs = read_measured_runs(flags.runs, *kernels);
  if (!runs) return bad_input(runs.error());
  std::optional<MeasuredRuns> fitted_on;
  // Rows that are fitted on themselves are the same object, so that they are priced once.
  const bool is_other = !flags.fit.empty() && flags.fit != flags.runs;
  if (is_other) {
    auto read = read_measured_runs(flags.fit, *kernels);
    if (!read) return bad_input(read.error());
    fitted_on = *std::move(read);
  }
  ProgressBar bar(!flags.output.quiet && stderr_is_terminal() ? ProgressDisplay::on : ProgressDisplay::off);
  const MeasuredRuns* fit = flags.fit.empty() ? nullptr : is_other ? &*fitted_on : &*runs;
  auto report = predict_runs(*runs, fit, [&](std::size_t done, std::size_t all) { bar.show(done, all); });
  if (!report) return bad_input(report.error());
  return JudgedRuns{.runs = *std::move(runs), .report = *std::move(report)};
}

/// Predicts iterations of one machine, with costs of `penstock fit`.
tl::expected<JudgedRuns, UserError> by_costs(const RunsFlags& flags) {
  if (!flags.fit.empty()) return bad_input("runs: expected either --fit or --costs, got both");
  if (!flags.products.empty())
    return bad_input("runs: --costs has nothing to do with devices: leave --products out");
  const auto iterations = read_iterations(flags.runs);
  if (!iterations) return bad_input(iterations.error());
  auto costs = load_iteration_costs(flags.costs, flags.costs);
  if (!costs) return bad_input(costs.error());
  MeasuredRuns runs = runs_with(*iterations, std::make_shared<const IterationCosts>(*std::move(costs)));
  auto report = predict_iterations(runs, std::vector<bool>(runs.runs.size(), false));
  if (!report) return bad_input(fmt::format("{}: {}", flags.runs, report.error()));
  return JudgedRuns{.runs = std::move(runs), .report = *std::move(report)};
}

/// Compares each run with the best configuration that is found for its question.
Outcome compare_with_best(const RunsFlags& flags) {
  if (!flags.fit.empty() || !flags.costs.empty())
    return bad_input("runs: --best takes the devices' own constants: leave --fit and --costs out");
  if (auto known = check_output_files(flags.output.files, kBestFiles, inputs_of(flags)); !known)
    return tl::unexpected(known.error());
  const auto kernels = kernels_of(flags.products);
  if (!kernels) return tl::unexpected(kernels.error());
  const auto runs = read_measured_runs(flags.runs, *kernels);
  if (!runs) return bad_input(runs.error());
  ProgressBar bar(!flags.output.quiet && stderr_is_terminal() ? ProgressDisplay::on : ProgressDisplay::off);
  const auto rows = against_best(runs->runs, [&](std::size_t done, std::size_t all) { bar.show(done, all); });
  if (!rows) return bad_input(rows.error());
  const std::vector<OutputForm> forms = {{".json", [&] { return against_best_json(*rows); }},
                                         {".txt", [&] { return against_best_text(*rows, 0); }}};
  const std::string text =
      flags.output.json ? against_best_json(*rows) : against_best_text(*rows, table_width());
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

Outcome predict(const RunsFlags& flags) {
  if (auto known = check_output_files(flags.output.files, kRunsFiles, inputs_of(flags)); !known)
    return tl::unexpected(known.error());
  const auto judged = flags.costs.empty() ? by_devices(flags) : by_costs(flags);
  if (!judged) return tl::unexpected(judged.error());
  const auto& [runs, report] = *judged;
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
         "fit at most four constants a source, device and precision on this file's rows, in place of the "
         "devices' own: sustained rate of products, collectives that nothing hides, exposed part of the "
         "reduction, unexplained time of a layer of experts")
      .type_name("FILE");
  app.add_option(
         "--costs", flags->costs,
         "what `penstock fit` made; RUNS then has the columns that it takes, and nothing of devices is asked")
      .type_name("FILE");
  app.add_option("--products", flags->products,
                 "matrix products as a machine of this device ran them in training, in place of the device's "
                 "tables and sustained rate where a shape is there; may be repeated")
      .type_name("DEVICE=FILE");
  app.add_flag(
      "--best", flags->best,
      "for each run also the best that `penstock tune` finds for its model, devices and batch, and the "
      "cost of the run's own choices; takes seconds a run");
  add_output_flags(app, flags->output, ".json .csv .html .txt");
  app.footer(
      "Examples:\n"
      "  penstock runs scenarios/library/runs/training_steps.csv\n"
      "  penstock runs scenarios/library/runs/training_steps.csv -o runs.html\n"
      "  penstock runs scenarios/library/runs/training_steps.csv \\\n"
      "    --products b200-sxm=scenarios/library/kernels/products_B200.csv\n"
      "  penstock runs new.csv --fit scenarios/library/runs/training_steps.csv -o predicted.csv");
  return {app, [flags] { return flags->best ? compare_with_best(*flags) : predict(*flags); }};
}

}  // namespace penstock
