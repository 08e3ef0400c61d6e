// One line a figure: published, predicted, error, verdict. "holds" and "MISSED" are said only of figures that
// are tested; of bounds that are beaten "better". The Markdown form is a part of the scenarios' page, written
// by a test.

#include "cli/commands/reproduce_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/print/table.hpp"
#include "sim/published/reproduce.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

std::string_view word_of(Claim claim) {
  switch (claim) {
    case Claim::equal:
      return "equal";
    case Claim::at_most:
      return "at_most";
    case Claim::at_least:
      return "at_least";
    case Claim::none:
      return "none";
  }
  return "";
}

std::string_view verdict_of(const ReproducedFigure& figure) {
  if (!figure.holds()) return "MISSED";
  if (figure.claim == Claim::none) return figure.published ? "not tested" : "-";
  return figure.predicted < *figure.published - figure.tolerance ? "better" : "holds";
}

std::ptrdiff_t tested(const Reproduced& reproduced) {
  return std::ranges::count_if(reproduced.figures,
                               [](const ReproducedFigure& figure) { return figure.claim != Claim::none; });
}

std::ptrdiff_t missed(const Reproduced& reproduced) {
  return std::ranges::count_if(reproduced.figures,
                               [](const ReproducedFigure& figure) { return !figure.holds(); });
}

std::string figure_text(double figure) { return fmt::format("{:.4f}", figure); }

std::string published_text(const ReproducedFigure& figure) {
  return figure.published ? figure_text(*figure.published) : "-";
}

/// In percent, with its sign.
std::string error_text(const ReproducedFigure& figure) {
  const std::optional<double> error = figure.relative_error();
  if (!error) return "-";
  constexpr double kLeastShown = 0.005;  // percent; below it a sign would say nothing
  const double percent = 100 * *error;
  return std::abs(percent) < kLeastShown ? "0.00 %" : fmt::format("{:+.2f} %", percent);
}

/// With its note.
std::string what_of(const ReproducedFigure& figure) {
  return figure.note.empty() ? figure.what : fmt::format("{} ({})", figure.what, figure.note);
}

std::string to_text(const Reproduced& reproduced) {
  Table table;
  table.columns = {"figure", "published", "predicted", "error", "verdict"};
  for (const ReproducedFigure& figure : reproduced.figures) {
    table.rows.push_back({{what_of(figure), {}},
                          {published_text(figure), figure.published.value_or(0)},
                          {figure_text(figure.predicted), figure.predicted},
                          {error_text(figure), figure.relative_error().value_or(0)},
                          {std::string(verdict_of(figure)), {}}});
  }
  return fmt::format("{}: {}\n{}\n\n{}\n{} of {} figures hold\n", reproduced.reproduction.name,
                     reproduced.reproduction.source, reproduced.reproduction.setting, table_to_text(table),
                     tested(reproduced) - missed(reproduced), tested(reproduced));
}

}  // namespace

std::string reproductions_to_text(const std::vector<Reproduced>& all) {
  std::string text;
  for (const Reproduced& reproduced : all) text += (text.empty() ? "" : "\n") + to_text(reproduced);
  return text;
}

std::string reproductions_to_json(const std::vector<Reproduced>& all) {
  Json experiments = Json::array();
  for (const Reproduced& reproduced : all) {
    Json figures = Json::array();
    for (const ReproducedFigure& figure : reproduced.figures) {
      const std::optional<double> error = figure.relative_error();
      figures.push_back({{"what", figure.what},
                         {"published", figure.published ? Json(*figure.published) : Json()},
                         {"predicted", figure.predicted},
                         {"relative_error", error ? Json(*error) : Json()},
                         {"tolerance", figure.tolerance},
                         {"claim", word_of(figure.claim)},
                         {"note", figure.note},
                         {"tested", figure.claim != Claim::none},
                         {"holds", figure.claim == Claim::none ? Json() : Json(figure.holds())}});
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

std::string reproductions_to_markdown(const std::vector<Reproduced>& all) {
  std::string overview = "| experiment | source | figures | tested | hold |\n|---|---|---|---|---|\n";
  std::string sections;
  for (const Reproduced& reproduced : all) {
    const Reproduction& experiment = reproduced.reproduction;
    overview +=
        fmt::format("| [{0}](#{0}) | {1} | {2} | {3} | {4} |\n", experiment.name, experiment.source,
                    reproduced.figures.size(), tested(reproduced), tested(reproduced) - missed(reproduced));
    sections += fmt::format(
        "\n### {}\n\n{}. {}.\n\n| figure | published | predicted | error | verdict "
        "|\n|---|---|---|---|---|\n",
        experiment.name, experiment.source, experiment.setting);
    for (const ReproducedFigure& figure : reproduced.figures) {
      sections += fmt::format("| {} | {} | {} | {} | {} |\n", what_of(figure), published_text(figure),
                              figure_text(figure.predicted), error_text(figure), verdict_of(figure));
    }
  }
  return overview + sections;
}

}  // namespace penstock
