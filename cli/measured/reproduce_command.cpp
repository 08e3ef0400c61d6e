// penstock reproduce: prints published figures beside the simulator's predictions, for all experiments or
// for the named ones. A published claim that does not hold in the simulation is a miss. If there is a
// miss, even a known one, the exit code is 1. Each figure has one line:
//
//   class    published  allowed           predicted  holds
//   equal      31.4000  0.05 (rounding)     31.4062  yes
//   bound       0.8500  at least 0.85        0.8900  yes
//   formula    24.0000  exact               24.0000  yes
//   missed     25.0000  1 % (size)          21.9512  NO
//
// The class is part of the table of figures and does not depend on the prediction. A test checks that docs/
// contains the Markdown form. If no experiment is named, the answer has one line for each experiment, and the
// misses.

#include "cli/measured/reproduce_command.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
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
#include "report/print/table.hpp"
#include "sim/published/reproduce.hpp"
#include "text/enum_words.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kPercent = 100;

/// The numbers of published figures by class, and how many agree with the prediction. The last line of the
/// answer shows them.
struct Counts {
  int printed = 0;   ///< Printed figures that are compared, of the classes equal and missed.
  int within = 0;    ///< Printed figures that are within their tolerance.
  int bounds = 0;    ///< bounds, whether they hold or not
  int formulas = 0;  ///< closed forms and drawings, whether they hold or not
  int missed = 0;    ///< Claims of any class that do not hold.
  int fitted = 0;
  int shown = 0;
};

Counts counts_of(const std::vector<ReproducedFigure>& figures) {
  Counts counts;
  for (const ReproducedFigure& figure : figures) {
    counts.printed += figure.is_printed() ? 1 : 0;
    counts.within += figure.is_printed() && figure.holds() ? 1 : 0;
    counts.bounds += figure.figure_class == FigureClass::bound ? 1 : 0;
    counts.formulas += figure.figure_class == FigureClass::formula ? 1 : 0;
    counts.missed += figure.holds() ? 0 : 1;
    counts.fitted += figure.figure_class == FigureClass::fitted ? 1 : 0;
    counts.shown += figure.figure_class == FigureClass::shown ? 1 : 0;
  }
  return counts;
}

Counts counts_of(const std::vector<Reproduced>& all) {
  std::vector<ReproducedFigure> figures;
  for (const Reproduced& reproduced : all)
    figures.insert(figures.end(), reproduced.figures.begin(), reproduced.figures.end());
  return counts_of(figures);
}

/// Returns a text about the experiments with misses (claims that do not hold), such as "the misses are 3 of
/// gpipe-memory, 1 of flexflow". If there are no misses, it says so.
std::string misses_text(const std::vector<Reproduced>& all) {
  std::vector<std::string> parts;
  for (const Reproduced& reproduced : all) {
    const int missed = counts_of(reproduced.figures).missed;
    if (missed > 0) parts.push_back(fmt::format("{} of {}", missed, reproduced.reproduction.name));
  }
  return parts.empty() ? "there are no misses" : fmt::format("the misses are {}", fmt::join(parts, ", "));
}

/// Returns the last line of the answer. It counts the published figures and the misses (claims that do not
/// hold).
std::string summary_text(const std::vector<Reproduced>& all) {
  const Counts counts = counts_of(all);
  return fmt::format(
      "predicted {} of {} printed figures within tolerance; {} are bounds; {} are closed forms; {}",
      counts.within, counts.printed, counts.bounds, counts.formulas, misses_text(all));
}

std::string figure_text(double figure) { return fmt::format("{:.4f}", figure); }

std::string published_text(const ReproducedFigure& figure) {
  return figure.published ? figure_text(*figure.published) : "-";
}

/// Returns the tolerance of a figure with its kind, such as "0.05 (rounding)", "5 % (ratio)" or "exact".
std::string tolerance_text(const ReproducedFigure& figure) {
  const ToleranceKind& kind = kind_of(figure.tolerance_kind);
  if (kind.tolerance == Tolerance::exact) return std::string(kind.word);
  if (kind.tolerance == Tolerance::rounding)
    return fmt::format("{:.{}f} ({})", figure.tolerance(), figure.decimals + 1, kind.word);
  return fmt::format("{:g} % ({})", kPercent * kind.part, kind.word);
}

/// Returns the tolerance or the bound of a figure, such as "5 % (ratio)", "at least 1" or "at most 0.1585 +
/// 0.00005 (rounding)".
std::string allowed_text(const ReproducedFigure& figure) {
  if (!figure.is_held()) return "-";
  if (figure.figure_class != FigureClass::bound) return tolerance_text(figure);
  const bool is_most = figure.side == BoundSide::at_most;
  const double bound = figure.bound ? *figure.bound : figure.published.value_or(0);
  std::string text = fmt::format("at {} {:.5g}", is_most ? "most" : "least", bound);
  if (figure.tolerance_kind == Tolerance::exact) return text;
  return fmt::format("{} {} {}", text, is_most ? "+" : "-", tolerance_text(figure));
}

std::string holds_text(const ReproducedFigure& figure) {
  if (!figure.is_held()) return "-";
  return figure.holds() ? "yes" : "NO";
}

/// Returns the relative error of the prediction in percent, with its sign, or "-" if there is none.
std::string error_text(const ReproducedFigure& figure) {
  const std::optional<double> error = figure.relative_error();
  if (!error) return "-";
  constexpr double kLeastShown = 0.005;  // least error in percent; a smaller error is shown as 0.00
  const double percent = kPercent * *error;
  return std::abs(percent) < kLeastShown ? "0.00 %" : fmt::format("{:+.2f} %", percent);
}

/// Returns the description of a figure, followed by its note in parentheses if it has one.
std::string what_of(const ReproducedFigure& figure) {
  return figure.note.empty() ? figure.what : fmt::format("{} ({})", figure.what, figure.note);
}

/// Returns the cells of a figure that the text table and the Markdown table have in common.
std::vector<std::string> cells_of(const ReproducedFigure& figure) {
  return {what_of(figure),
          std::string(to_text(figure.figure_class)),
          published_text(figure),
          allowed_text(figure),
          figure_text(figure.predicted),
          error_text(figure),
          holds_text(figure)};
}
const std::vector<std::string> kColumns = {"figure",    "class", "published", "allowed",
                                           "predicted", "error", "holds"};

std::string table_text(const std::vector<ReproducedFigure>& figures, std::size_t width) {
  Table table;
  table.columns = kColumns;
  for (const ReproducedFigure& figure : figures) {
    const std::vector<std::string> cells = cells_of(figure);
    table.rows.push_back({{cells[0], {}},
                          {cells[1], {}},
                          {cells[2], figure.published.value_or(0)},
                          {cells[3], {}},
                          {cells[4], figure.predicted},
                          {cells[5], figure.relative_error().value_or(0)},
                          {cells[6], {}}});
  }
  return table_to_text(table, width);
}

std::string table_markdown(const std::vector<ReproducedFigure>& figures) {
  std::string text = fmt::format("| {} |\n|---|---|---|---|---|---|---|\n", fmt::join(kColumns, " | "));
  for (const ReproducedFigure& figure : figures)
    text += fmt::format("| {} |\n", fmt::join(cells_of(figure), " | "));
  return text;
}

/// Returns the misses (claims that do not hold) of all experiments. The text of each begins with the name
/// of its experiment.
std::vector<ReproducedFigure> misses_of(const std::vector<Reproduced>& all) {
  std::vector<ReproducedFigure> misses;
  for (const Reproduced& reproduced : all) {
    for (const ReproducedFigure& figure : reproduced.figures) {
      if (figure.holds()) continue;
      misses.push_back(figure);
      misses.back().what = fmt::format("{}: {}", reproduced.reproduction.name, figure.what);
    }
  }
  return misses;
}

/// Returns one line for each kind of tolerance, such as "ratio, 5 %: measured speeds ...".
std::string tolerances_text(std::string_view line_start) {
  std::string text;
  for (const ToleranceKind& kind : tolerance_table()) {
    const std::string width = kind.part > 0 && kind.tolerance != Tolerance::exact
                                  ? fmt::format(", {:g} %", kPercent * kind.part)
                                  : "";
    text += fmt::format("{}{}{}: {}\n", line_start, kind.word, width, kind.reason);
  }
  return text;
}

std::string to_text(const Reproduced& reproduced, std::size_t width) {
  return fmt::format("{}: {}\n{}\n\n{}\n", reproduced.reproduction.name, reproduced.reproduction.source,
                     reproduced.reproduction.setting, table_text(reproduced.figures, width));
}

Json counts_json(const Counts& counts) {
  return {{"printed", counts.printed},   {"within", counts.within}, {"bounds", counts.bounds},
          {"formulas", counts.formulas}, {"missed", counts.missed}, {"fitted", counts.fitted},
          {"ours", counts.shown}};
}

Json figure_json(const Reproduction& experiment, const ReproducedFigure& figure) {
  const std::optional<double> error = figure.relative_error();
  Json json = {{"name", figure.what},
               {"experiment", experiment.name},
               {"class", to_text(figure.figure_class)},
               {"published", figure.published ? Json(*figure.published) : Json()},
               {"predicted", figure.predicted},
               {"relative_error", error ? Json(*error) : Json()}};
  if (figure.is_held()) {
    json["tolerance"] = figure.tolerance();
    json["tolerance_kind"] = kind_of(figure.tolerance_kind).word;
    json["holds"] = figure.holds();
  }
  if (figure.figure_class == FigureClass::bound) {
    json["bound"] = Json{{"side", figure.side == BoundSide::at_most ? "at_most" : "at_least"},
                         {"value", figure.bound ? *figure.bound : figure.published.value_or(0)}};
  }
  json["note"] = figure.note;
  return json;
}

}  // namespace

namespace {

/// Returns the end of the answer about several experiments: all misses, and the counts of figures.
std::string misses_and_summary(const std::vector<Reproduced>& all, std::size_t width) {
  std::string text;
  const std::vector<ReproducedFigure> misses = misses_of(all);
  if (!misses.empty()) text += "The misses:\n\n" + table_text(misses, width) + "\n";
  const Counts counts = counts_of(all);
  if (counts.fitted > 0) {
    text += fmt::format("{} printed figures gave a constant of the prediction, so they test nothing.\n",
                        counts.fitted);
  }
  return text + summary_text(all) + "\n";
}

}  // namespace

std::string reproductions_to_text(const std::vector<Reproduced>& all, std::size_t width) {
  std::string text;
  for (const Reproduced& reproduced : all) text += to_text(reproduced, width) + "\n";
  text += "What a prediction is allowed:\n" + tolerances_text("  ") + "\n";
  return text + misses_and_summary(all, width);
}

std::string reproductions_overview(const std::vector<Reproduced>& all, std::size_t width) {
  Table table;
  table.columns = {"experiment", "printed", "within", "bounds", "closed forms", "missed"};
  for (const Reproduced& reproduced : all) {
    const Counts counts = counts_of(reproduced.figures);
    table.rows.push_back({text_cell(std::string(reproduced.reproduction.name)), count_cell(counts.printed),
                          count_cell(counts.within), count_cell(counts.bounds), count_cell(counts.formulas),
                          count_cell(counts.missed)});
  }
  return fmt::format(
      "{}\n`penstock reproduce EXPERIMENT` prints the figures of one experiment, and -o FILE.txt writes "
      "all.\n\n{}",
      table_to_text(table, width), misses_and_summary(all, width));
}

std::string reproductions_to_json(const std::vector<Reproduced>& all) {
  Json experiments = Json::array();
  Json held = Json::array();
  Json context = Json::array();
  for (const Reproduced& reproduced : all) {
    const Reproduction& experiment = reproduced.reproduction;
    for (const ReproducedFigure& figure : reproduced.figures)
      (figure.is_held() ? held : context).push_back(figure_json(experiment, figure));
    experiments.push_back({{"name", experiment.name},
                           {"source", experiment.source},
                           {"setting", experiment.setting},
                           {"summary", counts_json(counts_of(reproduced.figures))}});
  }
  Json tolerances = Json::array();
  for (const ToleranceKind& kind : tolerance_table())
    tolerances.push_back({{"kind", kind.word}, {"part", kind.part}, {"reason", kind.reason}});
  return Json{{"schema_version", 1},
              {"kind", "reproduction"},
              {"experiments", std::move(experiments)},
              {"figures", std::move(held)},
              {"context", std::move(context)},
              {"tolerances", std::move(tolerances)},
              {"summary", counts_json(counts_of(all))}}
             .dump(2) +
         '\n';
}

std::string reproductions_to_markdown(const std::vector<Reproduced>& all) {
  std::string overview =
      summary_text(all) +
      ".\n\n| experiment | printed | within | bounds | closed forms | missed | fitted on | "
      "ours |\n|---|---|---|---|---|---|---|---|\n";
  overview[0] = 'P';
  std::string sections;
  for (const Reproduced& reproduced : all) {
    const Reproduction& experiment = reproduced.reproduction;
    const Counts counts = counts_of(reproduced.figures);
    overview += fmt::format("| [{0}](#{0}) | {1} | {2} | {3} | {4} | {5} | {6} | {7} |\n", experiment.name,
                            counts.printed, counts.within, counts.bounds, counts.formulas, counts.missed,
                            counts.fitted, counts.shown);
    sections += fmt::format("\n### {}\n\n{}. {}.\n\n{}", experiment.name, experiment.source,
                            experiment.setting, table_markdown(reproduced.figures));
  }
  overview += "\nWhat a prediction is allowed:\n\n" + tolerances_text("* ");
  const std::vector<ReproducedFigure> misses = misses_of(all);
  if (!misses.empty()) overview += "\n### The misses\n\n" + table_markdown(misses);
  return overview + sections;
}

namespace {

struct ReproduceFlags {
  std::vector<std::string> names;
  bool list = false;
  OutputFlags output;
};

/// Returns a list of all experiments with their sources and assumptions.
std::string list_text() {
  std::string text;
  for (const Reproduction& reproduction : reproduction_table()) {
    text += fmt::format("{}\n    {}\n    {}\n", reproduction.name, reproduction.source, reproduction.setting);
  }
  return text;
}

Outcome list_experiments(const OutputFlags& output) {
  if (auto known = check_output_files(output.files, {".txt"}, {}); !known)
    return tl::unexpected(known.error());
  const std::vector<OutputForm> forms = {{".txt", [] { return list_text(); }}};
  if (auto written = write_answer(output, forms, list_text()); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

/// Returns the experiments with these names, or all experiments if no name is given. Returns an error if no
/// experiment has a given name.
tl::expected<std::vector<Reproduction>, UserError> chosen(const std::vector<std::string>& names) {
  const auto table = reproduction_table();
  if (names.empty()) return std::vector<Reproduction>(table.begin(), table.end());
  std::vector<Reproduction> experiments;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(table, name, &Reproduction::name);
    if (found == table.end()) {
      std::vector<std::string_view> known;
      for (const Reproduction& row : table) known.push_back(row.name);
      const std::string hint = did_you_mean(name, known);
      return bad_input(fmt::format("reproduce: unknown experiment \"{}\"{} There are: {}", name,
                                   hint.empty() ? "." : hint, fmt::join(known, ", ")));
    }
    experiments.push_back(*found);
  }
  return experiments;
}

Outcome run_reproduce(const ReproduceFlags& flags) {
  if (flags.list) return list_experiments(flags.output);
  if (auto known = check_output_files(flags.output.files, {".txt", ".json", ".md"}, {}); !known)
    return tl::unexpected(known.error());
  const auto experiments = chosen(flags.names);
  if (!experiments) return tl::unexpected(experiments.error());
  std::vector<Reproduced> all;
  all.reserve(experiments->size());
  {
    ProgressBar bar(display_for(flags.output));
    for (const Reproduction& experiment : *experiments) {
      bar.show(all.size(), experiments->size());
      all.push_back({experiment, experiment.run()});
    }
  }
  const std::vector<OutputForm> forms = {{".txt", [&] { return reproductions_to_text(all); }},
                                         {".json", [&] { return reproductions_to_json(all); }},
                                         {".md", [&] { return reproductions_to_markdown(all); }}};
  const std::string text = flags.output.json     ? reproductions_to_json(all)
                           : flags.names.empty() ? reproductions_overview(all, table_width())
                                                 : reproductions_to_text(all, table_width());
  if (auto written = write_answer(flags.output, forms, text); !written)
    return tl::unexpected(written.error());
  return std::ranges::all_of(all, &Reproduced::holds) ? ExitCode::ok : ExitCode::check_failed;
}

}  // namespace

Command reproduce_command(CLI::App& root) {
  Subcommand app(root, "reproduce", "Predict published figures and hold them against the papers.");
  const auto flags = std::make_shared<ReproduceFlags>();
  app.add_option("EXPERIMENT", flags->names, "what to reproduce (default: all)").type_name("NAME");
  app.add_flag("--list", flags->list, "list the experiments with their sources");
  add_output_flags(app, flags->output, ".txt .json .md");
  app.footer(
      "Each figure has a class: equal (a printed figure, held within a tolerance), bound, formula (a closed\n"
      "form or a drawing) or missed (no prediction is known to meet it). A figure keeps its class whether "
      "it\n"
      "holds or not, and every figure that does not hold counts as a miss.\n"
      "Exit status: 1 when a figure misses its tolerance or bound.\n"
      "Examples:\n"
      "  penstock reproduce zero-bubble-table-5\n"
      "  penstock reproduce --list");
  return {app, [flags] { return run_reproduce(*flags); }};
}

}  // namespace penstock
