// Implements penstock fit: fits the costs of training on one machine to iterations that were measured on it.

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/commands/fit_output.hpp"
#include "cli/commands/runs_output.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "scenarios/read/quantities.hpp"
#include "sim/measured/fit_iterations.hpp"
#include "sim/measured/measured_iterations.hpp"

namespace penstock {
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
    // The word "unlimited" is parsed as infinity. The fit uses 0 for links on which messages take no time.
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
