// penstock compare: compares predictions with measurements, pair by pair in the order of the arguments. For
// one pair it prints every figure, action and rank. For several pairs it prints one line each, and checks
// whether the predictions rank the schedules in the right order. The exit code is 1 if a tolerance is
// exceeded.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"
#include "cli/terminal.hpp"
#include "report/compare/compare.hpp"
#include "report/pages/html_report.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/read/document.hpp"
#include "sim/why/explain.hpp"

namespace penstock {
namespace {

struct CompareFlags {
  std::string predicted;  // file name for one pair
  std::string measured;
  std::vector<std::string> all_predicted;  // file names for several pairs
  std::vector<std::string> all_measured;
  CompareTolerances tolerances;
  double rank_threshold = 0.03;
  OutputFlags output;
};

const std::vector<std::string_view> kCompareFiles = {".html", ".json", ".txt"};

/// Reads a Result from a file that `simulate --json` or `run --json` wrote.
tl::expected<Result, UserError> read_result(const std::string& file) {
  const auto text = read_text_file(file, file);
  if (!text) return bad_input(text.error());
  auto result = result_from_json(*text, file);
  if (!result) return bad_input(result.error());
  return *std::move(result);
}

/// The file names and contents of a pair: a prediction and a measurement.
struct FilePair {
  std::string predicted_file;
  std::string measured_file;
  Result predicted;
  Result measured;
};

tl::expected<FilePair, UserError> read_pair(const std::string& predicted_file,
                                            const std::string& measured_file) {
  auto predicted = read_result(predicted_file);
  if (!predicted) return tl::unexpected(std::move(predicted.error()));
  auto measured = read_result(measured_file);
  if (!measured) return tl::unexpected(std::move(measured.error()));
  return FilePair{predicted_file, measured_file, *std::move(predicted), *std::move(measured)};
}

/// Returns the bill of a result (its makespan divided into causes), or nothing if its timeline does not
/// explain it. A measurement does not record when a message left its channel. For a fair comparison, these
/// times are removed from predictions, too.
std::optional<MeanBill> bill_of(Result result) {
  for (Span& span : result.timeline.spans) span.released_ns = kNotReleased;
  const auto run = caused_run(result);
  if (!run) return std::nullopt;
  return mean_bill(explained(*run, {.chains = false, .alone = false}));
}

/// Compares one prediction with one measurement. Returns an error with exit code 1 if the two results
/// cannot be compared. If the files are swapped, the exit code is 2 and the error shows the correct
/// command.
tl::expected<Comparison, UserError> comparison_of(const FilePair& pair, const CompareTolerances& tolerances) {
  auto comparison = compare_results(pair.predicted, pair.measured, tolerances);
  if (comparison) {
    const auto predicted = bill_of(pair.predicted);
    const auto measured = bill_of(pair.measured);
    if (predicted && measured) comparison->causes = changes_of(*measured, *predicted);
    return *std::move(comparison);
  }
  const CompareError& error = comparison.error();
  const bool swapped =
      pair.predicted.kind == ResultKind::measured && pair.measured.kind == ResultKind::predicted;
  const std::string fix =
      swapped ? fmt::format(": `penstock compare {} {}`", pair.measured_file, pair.predicted_file) : "";
  return user_error(
      error.wrong_kind ? ErrorKind::bad_input : ErrorKind::check_failed,
      fmt::format("compare {} {}: {}{}", pair.predicted_file, pair.measured_file, error.message, fix));
}

Outcome compare_one(const CompareFlags& flags, const FilePair& pair) {
  const auto comparison = comparison_of(pair, flags.tolerances);
  if (!comparison) return tl::unexpected(comparison.error());
  const std::string json = comparison_to_json(*comparison);
  const std::string table = comparison_to_table(*comparison);
  const std::vector<OutputForm> forms = {
      {".html",
       [&] {
         const auto predicted = explanation_for_page(pair.predicted);
         const auto measured = explanation_for_page(pair.measured);
         return comparison_to_html(
             *comparison, {pair.predicted, pair.measured},
             {.predicted = predicted ? &*predicted : nullptr, .measured = measured ? &*measured : nullptr});
       }},
      {".json", [&] { return std::string(json); }},
      {".txt", [&] { return std::string(table); }}};
  if (auto written = write_answer(flags.output, forms,
                                  flags.output.json ? json : comparison_to_table(*comparison, table_width()));
      !written)
    return tl::unexpected(written.error());
  return comparison->passed() ? ExitCode::ok : ExitCode::check_failed;
}

/// Compares several pairs of a prediction and a measurement. Returns exit code 1 if a tolerance is
/// exceeded. It also returns 1 if a schedule was clearly faster than another in the measurement, but not in
/// the prediction.
Outcome compare_several(const CompareFlags& flags, const std::vector<FilePair>& files) {
  std::vector<Comparison> comparisons;
  std::vector<ResultPair> pairs;
  for (const FilePair& pair : files) {
    auto comparison = comparison_of(pair, flags.tolerances);
    if (!comparison) return tl::unexpected(std::move(comparison.error()));
    comparisons.push_back(*std::move(comparison));
    pairs.push_back({pair.predicted, pair.measured});
  }
  const Ranking ranking = ranking_of(pairs, flags.rank_threshold);
  const std::string json = comparisons_to_json(comparisons, ranking);
  const std::string table = comparisons_to_table(comparisons, ranking);
  const std::vector<OutputForm> forms = {
      {".html", [&] { return comparisons_to_html(comparisons, pairs, ranking); }},
      {".json", [&] { return std::string(json); }},
      {".txt", [&] { return std::string(table); }}};
  if (auto written =
          write_answer(flags.output, forms,
                       flags.output.json ? json : comparisons_to_table(comparisons, ranking, table_width()));
      !written)
    return tl::unexpected(written.error());
  const bool passed = ranking.passed() && std::ranges::all_of(comparisons, &Comparison::passed);
  return passed ? ExitCode::ok : ExitCode::check_failed;
}

std::vector<FileArgument> inputs_of(const CompareFlags& flags) {
  std::vector<FileArgument> inputs = {{"PREDICTED", flags.predicted}, {"MEASURED", flags.measured}};
  for (const std::string& file : flags.all_predicted) inputs.push_back({"--predicted", file});
  for (const std::string& file : flags.all_measured) inputs.push_back({"--measured", file});
  return inputs;
}

Outcome run_compare(const CompareFlags& flags) {
  if (auto known = check_output_files(flags.output.files, kCompareFiles, inputs_of(flags)); !known)
    return tl::unexpected(known.error());
  const bool several = !flags.all_predicted.empty() || !flags.all_measured.empty();
  if (!several) {
    if (flags.predicted.empty() || flags.measured.empty()) {
      return bad_input(
          "compare: expected two files, PREDICTED and MEASURED, or --predicted FILES --measured FILES");
    }
    const auto pair = read_pair(flags.predicted, flags.measured);
    if (!pair) return tl::unexpected(pair.error());
    return compare_one(flags, *pair);
  }
  // CLI11 would ignore this file, but the user wants to compare it.
  if (!flags.predicted.empty()) {
    return bad_input(
        fmt::format("compare: {} comes before --predicted and --measured, which name all files: put it "
                    "after one of them",
                    flags.predicted));
  }
  if (flags.all_predicted.size() != flags.all_measured.size()) {
    return bad_input(fmt::format(
        "compare: --predicted has {} files and --measured {}: give as many of both, in the same order",
        flags.all_predicted.size(), flags.all_measured.size()));
  }
  std::vector<FilePair> files;
  for (std::size_t i = 0; i < flags.all_predicted.size(); ++i) {
    auto pair = read_pair(flags.all_predicted[i], flags.all_measured[i]);
    if (!pair) return tl::unexpected(std::move(pair.error()));
    files.push_back(*std::move(pair));
  }
  return compare_several(flags, files);
}

/// Declares a flag that sets the tolerance of a figure. `value` is a double. If the figure has no tolerance
/// by default, `value` is an optional double.
template <class Value>
void add_tolerance(Subcommand app, const std::string& name, Value& value, const std::string& help) {
  app.add_option(name, value, help)
      .range(0.0, 1e9)
      .group("Tolerances (beyond one of them: exit 1)")
      .type_name("FRACTION");
}

void add_tolerances(Subcommand app, CompareFlags& flags) {
  add_tolerance(app, "--tolerance", flags.tolerances.makespan,
                "of iteration time and samples per second, relative to the measurement (default 0.05)");
  add_tolerance(app, "--bubble-tolerance", flags.tolerances.bubble,
                "of idle / total, absolute (default 0.05)");
  add_tolerance(app, "--memory-tolerance", flags.tolerances.memory,
                "of the fullest rank's peak, relative (default: any)");
  add_tolerance(app, "--start-tolerance", flags.tolerances.start,
                "of the actions' starts, mean, relative to the iteration time (default: any)");
  add_tolerance(app, "--duration-tolerance", flags.tolerances.duration,
                "of the actions' durations, mean, relative to the measured ones (default: any)");
  add_tolerance(
      app, "--rank-threshold", flags.rank_threshold,
      "of several pairs: those whose measured times a sample differ by more must be predicted in the "
      "same order (default 0.03)");
}

}  // namespace

Command compare_command(CLI::App& root) {
  Subcommand app(root, "compare", "Hold predictions against measurements of the same programs.");
  const auto flags = std::make_shared<CompareFlags>();
  app.add_option("PREDICTED", flags->predicted, "JSON of `penstock simulate`").type_name("FILE");
  app.add_option("MEASURED", flags->measured, "JSON of `penstock run`").type_name("FILE");
  app.add_option("--predicted", flags->all_predicted, "several predictions, to rank their schedules")
      .group("Several schedules")
      .type_name("FILE");
  app.add_option("--measured", flags->all_measured, "their measurements, in the same order")
      .group("Several schedules")
      .type_name("FILE");
  add_tolerances(app, *flags);
  add_output_flags(app, flags->output, ".html .json .txt");
  app.footer(
      "Errors are predicted minus measured. With --timeline in both results there are errors of single\n"
      "actions, and .html draws both timelines over each other.\n\n"
      "Examples:\n"
      "  penstock simulate scenarios/library/gnmt-cluster-a.yaml --timeline -o predicted.json\n"
      "  penstock run scenarios/library/gnmt-cluster-a.yaml --timeline -o measured.json\n"
      "  penstock compare predicted.json measured.json --tolerance 0.03 -o compare.html\n"
      "  penstock compare --predicted predicted/*.json --measured measured/*.json");
  return {app, [flags] { return run_compare(*flags); }};
}

}  // namespace penstock
