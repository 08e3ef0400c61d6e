// penstock reproduce: published figures beside what the simulator predicts.

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "report/table.hpp"
#include "schedules/nearest_name.hpp"
#include "sim/reproduce.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

struct ReproduceFlags {
  std::vector<std::string> names;
  bool list = false;
  OutputFlags output;
};

/// An experiment with its figures.
struct Reproduced {
  Reproduction reproduction;
  std::vector<ReproducedFigure> figures;

  bool holds() const { return std::ranges::all_of(figures, &ReproducedFigure::holds); }
};

std::string_view verdict_of(const ReproducedFigure& figure) {
  if (!figure.holds()) return "MISSED";
  return figure.predicted < figure.published - figure.tolerance ? "better" : "holds";
}

std::string to_text(const Reproduced& reproduced) {
  Table table;
  table.columns = {"figure", "published", "predicted", "error", "verdict"};
  for (const ReproducedFigure& figure : reproduced.figures) {
    table.rows.push_back({{figure.what, {}},
                          {fmt::format("{:.4f}", figure.published), figure.published},
                          {fmt::format("{:.4f}", figure.predicted), figure.predicted},
                          {fmt::format("{:+.4f}", figure.predicted - figure.published), figure.predicted},
                          {std::string(verdict_of(figure)), {}}});
  }
  const auto missed = std::ranges::count_if(reproduced.figures,
                                            [](const ReproducedFigure& figure) { return !figure.holds(); });
  return fmt::format("{}: {}\n{}\n\n{}\n{} of {} figures hold\n", reproduced.reproduction.name,
                     reproduced.reproduction.source, reproduced.reproduction.setting, table_to_text(table),
                     std::ssize(reproduced.figures) - missed, reproduced.figures.size());
}

std::string to_text(const std::vector<Reproduced>& all) {
  std::string text;
  for (const Reproduced& reproduced : all) text += (text.empty() ? "" : "\n") + to_text(reproduced);
  return text;
}

std::string to_json(const std::vector<Reproduced>& all) {
  Json experiments = Json::array();
  for (const Reproduced& reproduced : all) {
    Json figures = Json::array();
    for (const ReproducedFigure& figure : reproduced.figures) {
      figures.push_back({{"what", figure.what},
                         {"published", figure.published},
                         {"predicted", figure.predicted},
                         {"tolerance", figure.tolerance},
                         {"claim", figure.claim == Claim::equal ? "equal" : "at_most"},
                         {"holds", figure.holds()}});
    }
    experiments.push_back({{"name", reproduced.reproduction.name},
                           {"source", reproduced.reproduction.source},
                           {"setting", reproduced.reproduction.setting},
                           {"holds", reproduced.holds()},
                           {"figures", std::move(figures)}});
  }
  return Json{{"schema_version", 1}, {"kind", "reproduction"}, {"experiments", std::move(experiments)}}.dump(
             2) +
         '\n';
}

std::string list_text() {
  std::string text;
  for (const Reproduction& reproduction : reproduction_table()) {
    text += fmt::format("{}\n    {}\n    {}\n", reproduction.name, reproduction.source, reproduction.setting);
  }
  return text;
}

tl::expected<std::vector<Reproduction>, Failure> chosen(const std::vector<std::string>& names) {
  const auto table = reproduction_table();
  if (names.empty()) return std::vector<Reproduction>(table.begin(), table.end());
  std::vector<Reproduction> experiments;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(table, name, &Reproduction::name);
    if (found == table.end()) {
      std::vector<std::string_view> known;
      for (const Reproduction& row : table) known.push_back(row.name);
      return bad_input(fmt::format("reproduce: unknown experiment \"{}\"; did you mean {}? There are: {}",
                                   name, nearest_name(name, known), fmt::join(known, ", ")));
    }
    experiments.push_back(*found);
  }
  return experiments;
}

Outcome run_reproduce(const ReproduceFlags& flags) {
  if (auto known = check_output_files(flags.output.files, {".txt", ".json"}); !known)
    return tl::unexpected(known.error());
  if (flags.list) {
    if (auto written = write_stdout(list_text()); !written) return tl::unexpected(written.error());
    return ExitCode::ok;
  }
  const auto experiments = chosen(flags.names);
  if (!experiments) return tl::unexpected(experiments.error());
  std::vector<Reproduced> all;
  all.reserve(experiments->size());
  for (const Reproduction& experiment : *experiments) all.push_back({experiment, experiment.run()});
  const std::vector<OutputForm> forms = {{".txt", [&] { return to_text(all); }},
                                         {".json", [&] { return to_json(all); }}};
  if (auto written = write_answer(flags.output, forms, flags.output.json ? to_json(all) : to_text(all));
      !written)
    return tl::unexpected(written.error());
  return std::ranges::all_of(all, &Reproduced::holds) ? ExitCode::ok : ExitCode::check_failed;
}

}  // namespace

Command reproduce_command(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("reproduce", "Predict published figures and hold them against the papers.");
  const auto flags = std::make_shared<ReproduceFlags>();
  app->add_option("EXPERIMENT", flags->names, "what to reproduce (default: all)")->type_name("NAME");
  app->add_flag("--list", flags->list, "list the experiments with their sources");
  add_output_flags(*app, flags->output, ".txt .json");
  app->footer(
      "Exit status: 1 when a figure misses its tolerance.\n"
      "Examples:\n"
      "  penstock reproduce zero-bubble-table-5\n"
      "  penstock reproduce --list");
  return {app, [flags] { return run_reproduce(*flags); }};
}

}  // namespace penstock
