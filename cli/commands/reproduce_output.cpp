// One line a figure: published, predicted, error, verdict. "holds" and "MISSED" are said only of figures that
// are tested, of bounds that are beaten "better"; "missed" of published ones that no prediction meets, as
// their notes say; "direction" (or "REVERSED") where no number is published; "ours" of what gives scale. The
// Markdown form is a part of the scenarios' page, written by a test.

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
    case Claim::fitted:
      return "fitted";
    case Claim::none:
      return "none";
  }
  return "";
}

std::string_view word_of(FigureClass figure_class) {
  switch (figure_class) {
    case FigureClass::tested:
      return "tested";
    case FigureClass::fitted:
      return "fitted";
    case FigureClass::missed:
      return "missed";
    case FigureClass::direction:
      return "direction";
    case FigureClass::scale:
      return "scale";
  }
  return "";
}

/// The last column. "better" is a bound from above that is undercut by more than its tolerance.
std::string_view verdict_of(const ReproducedFigure& figure) {
  switch (figure.figure_class()) {
    case FigureClass::tested:
      if (!figure.holds()) return "MISSED";
      return figure.predicted < *figure.published - figure.tolerance ? "better" : "holds";
    case FigureClass::fitted:
      return "fitted";
    case FigureClass::missed:
      return "missed";
    case FigureClass::direction:
      return figure.holds() ? "direction" : "REVERSED";
    case FigureClass::scale:
      return "ours";
  }
  return "";
}

std::ptrdiff_t count_of(const Reproduced& reproduced, FigureClass figure_class) {
  return std::ranges::count(reproduced.figures, figure_class, &ReproducedFigure::figure_class);
}

/// Tested figures that meet what is published.
std::ptrdiff_t holding(const Reproduced& reproduced) {
  return std::ranges::count_if(reproduced.figures, [](const ReproducedFigure& figure) {
    return figure.figure_class() == FigureClass::tested && figure.holds();
  });
}

/// "12 of 12 figures that are tested hold; 3 published ones are missed, 0 were fitted on, 4 directions, 20
/// ours".
std::string counts_text(const Reproduced& reproduced) {
  return fmt::format(
      "{} of {} figures that are tested hold; {} published ones are missed, {} were fitted on, {} "
      "directions, {} ours",
      holding(reproduced), count_of(reproduced, FigureClass::tested),
      count_of(reproduced, FigureClass::missed), count_of(reproduced, FigureClass::fitted),
      count_of(reproduced, FigureClass::direction), count_of(reproduced, FigureClass::scale));
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

std::string to_text(const Reproduced& reproduced, std::size_t width) {
  Table table;
  table.columns = {"figure", "published", "predicted", "error", "verdict"};
  for (const ReproducedFigure& figure : reproduced.figures) {
    table.rows.push_back({{what_of(figure), {}},
                          {published_text(figure), figure.published.value_or(0)},
                          {figure_text(figure.predicted), figure.predicted},
                          {error_text(figure), figure.relative_error().value_or(0)},
                          {std::string(verdict_of(figure)), {}}});
  }
  return fmt::format("{}: {}\n{}\n\n{}\n{}\n", reproduced.reproduction.name, reproduced.reproduction.source,
                     reproduced.reproduction.setting, table_to_text(table, width), counts_text(reproduced));
}

/// Null where nothing was tested and no direction is reversed: an experiment that only shows figures holds
/// nothing.
Json experiment_holds(const Reproduced& reproduced) {
  const bool says_nothing = count_of(reproduced, FigureClass::tested) == 0 && reproduced.holds();
  return says_nothing ? Json() : Json(reproduced.holds());
}

Json figure_json(const ReproducedFigure& figure) {
  const std::optional<double> error = figure.relative_error();
  const FigureClass figure_class = figure.figure_class();
  const bool is_tested = figure_class == FigureClass::tested;
  Json json = {{"what", figure.what},
               {"class", word_of(figure_class)},
               {"published", figure.published ? Json(*figure.published) : Json()},
               {"predicted", figure.predicted},
               {"relative_error", error ? Json(*error) : Json()},
               {"tolerance", figure.tolerance},
               {"claim", word_of(figure.claim)},
               {"note", figure.note},
               {"tested", is_tested},
               {"holds", is_tested ? Json(figure.holds()) : Json()}};
  if (figure_class == FigureClass::direction)
    json["direction"] = {{"bound", *figure.bound}, {"as_claimed", figure.holds()}};
  return json;
}

}  // namespace

std::string reproductions_to_text(const std::vector<Reproduced>& all, std::size_t width) {
  std::string text;
  for (const Reproduced& reproduced : all) text += (text.empty() ? "" : "\n") + to_text(reproduced, width);
  return text;
}

std::string reproductions_to_json(const std::vector<Reproduced>& all) {
  Json experiments = Json::array();
  for (const Reproduced& reproduced : all) {
    Json figures = Json::array();
    for (const ReproducedFigure& figure : reproduced.figures) figures.push_back(figure_json(figure));
    experiments.push_back({{"name", reproduced.reproduction.name},
                           {"source", reproduced.reproduction.source},
                           {"setting", reproduced.reproduction.setting},
                           {"holds", experiment_holds(reproduced)},
                           {"counts",
                            {{"tested", count_of(reproduced, FigureClass::tested)},
                             {"holding", holding(reproduced)},
                             {"missed", count_of(reproduced, FigureClass::missed)},
                             {"fitted", count_of(reproduced, FigureClass::fitted)},
                             {"direction", count_of(reproduced, FigureClass::direction)},
                             {"scale", count_of(reproduced, FigureClass::scale)}}},
                           {"figures", std::move(figures)}});
  }
  return Json{{"schema_version", 1}, {"kind", "reproduction"}, {"experiments", std::move(experiments)}}.dump(
             2) +
         '\n';
}

std::string reproductions_to_markdown(const std::vector<Reproduced>& all) {
  std::string overview =
      "| experiment | source | tested | hold | missed | fitted on | directions | ours "
      "|\n|---|---|---|---|---|---|---|---|\n";
  std::string sections;
  for (const Reproduced& reproduced : all) {
    const Reproduction& experiment = reproduced.reproduction;
    overview +=
        fmt::format("| [{0}](#{0}) | {1} | {2} | {3} | {4} | {5} | {6} | {7} |\n", experiment.name,
                    experiment.source, count_of(reproduced, FigureClass::tested), holding(reproduced),
                    count_of(reproduced, FigureClass::missed), count_of(reproduced, FigureClass::fitted),
                    count_of(reproduced, FigureClass::direction), count_of(reproduced, FigureClass::scale));
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
