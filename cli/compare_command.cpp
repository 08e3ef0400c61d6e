// penstock compare: holds a prediction against a measurement.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "report/compare.hpp"
#include "report/result.hpp"
#include "report/result_json.hpp"
#include "scenarios/document.hpp"

namespace penstock {
namespace {

struct CompareFlags {
  std::string predicted;
  std::string measured;
  CompareTolerances tolerances;
  OutputFlags output;
};

const std::vector<std::string_view> kSuffixes = {".json", ".txt"};

tl::expected<Result, Failure> read_result(const std::string& file) {
  const auto text = read_text_file(file, file);
  if (!text) return bad_input(text.error());
  auto result = result_from_json(*text, file);
  if (!result) return bad_input(result.error());
  return *std::move(result);
}

Outcome run_compare(const CompareFlags& flags) {
  if (auto known = check_output_files(flags.output.files, kSuffixes); !known)
    return tl::unexpected(known.error());
  const auto predicted = read_result(flags.predicted);
  if (!predicted) return tl::unexpected(predicted.error());
  const auto measured = read_result(flags.measured);
  if (!measured) return tl::unexpected(measured.error());
  const auto comparison = compare_results(*predicted, *measured, flags.tolerances);
  if (!comparison) return tl::unexpected(Failure{ExitCode::check_failed, comparison.error()});
  const std::vector<OutputForm> forms = {{".json", [&] { return comparison_to_json(*comparison); }},
                                         {".txt", [&] { return comparison_to_table(*comparison); }}};
  const std::string text =
      flags.output.json ? comparison_to_json(*comparison) : comparison_to_table(*comparison);
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return comparison->passed() ? ExitCode::ok : ExitCode::check_failed;
}

template <class Value>
void add_tolerance(CLI::App& app, const std::string& name, Value& value, const std::string& help) {
  app.add_option(name, value, help)
      ->check(CLI::Range(0.0, 1e9).description(""))
      ->group("Tolerances (beyond one of them: exit 1)")
      ->type_name("FRACTION");
}

}  // namespace

Command compare_command(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("compare", "Hold a prediction against a measurement of the same program.");
  const auto flags = std::make_shared<CompareFlags>();
  app->add_option("PREDICTED", flags->predicted, "JSON of `penstock simulate`")
      ->required()
      ->type_name("FILE");
  app->add_option("MEASURED", flags->measured, "JSON of `penstock run`")->required()->type_name("FILE");
  add_tolerance(*app, "--tolerance", flags->tolerances.makespan,
                "of iteration time and samples per second, relative to the measurement (default 0.05)");
  add_tolerance(*app, "--bubble-tolerance", flags->tolerances.bubble,
                "of idle / total, absolute (default 0.05)");
  add_tolerance(*app, "--memory-tolerance", flags->tolerances.memory,
                "of the fullest rank's peak, relative (default: any)");
  add_tolerance(*app, "--start-tolerance", flags->tolerances.start,
                "of the actions' starts, mean, relative to the iteration time (default: any)");
  add_tolerance(*app, "--duration-tolerance", flags->tolerances.duration,
                "of the actions' durations, mean, relative to the measured ones (default: any)");
  add_output_flags(*app, flags->output, ".json .txt");
  app->footer(
      "Examples:\n"
      "  penstock simulate scenarios/library/gnmt-cluster-a.yaml --timeline -o predicted.json\n"
      "  penstock run scenarios/library/gnmt-cluster-a.yaml --timeline -o measured.json\n"
      "  penstock compare predicted.json measured.json --tolerance 0.03");
  return {app, [flags] { return run_compare(*flags); }};
}

}  // namespace penstock
