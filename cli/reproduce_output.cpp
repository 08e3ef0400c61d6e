#include "cli/reproduce_output.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/table.hpp"
#include "sim/reproduce.hpp"

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
  }
  return "";
}

std::string_view verdict_of(const ReproducedFigure& figure) {
  if (!figure.holds()) return "MISSED";
  return figure.predicted < figure.published - figure.tolerance ? "better" : "holds";
}

std::ptrdiff_t missed(const Reproduced& reproduced) {
  return std::ranges::count_if(reproduced.figures,
                               [](const ReproducedFigure& figure) { return !figure.holds(); });
}

std::string figure_text(double figure) { return fmt::format("{:.4f}", figure); }

/// With its note.
std::string what_of(const ReproducedFigure& figure) {
  return figure.note.empty() ? figure.what : fmt::format("{} ({})", figure.what, figure.note);
}

std::string to_text(const Reproduced& reproduced) {
  Table table;
  table.columns = {"figure", "published", "predicted", "error", "verdict"};
  for (const ReproducedFigure& figure : reproduced.figures) {
    table.rows.push_back({{what_of(figure), {}},
                          {figure_text(figure.published), figure.published},
                          {figure_text(figure.predicted), figure.predicted},
                          {fmt::format("{:+.4f}", figure.predicted - figure.published), figure.predicted},
                          {std::string(verdict_of(figure)), {}}});
  }
  return fmt::format("{}: {}\n{}\n\n{}\n{} of {} figures hold\n", reproduced.reproduction.name,
                     reproduced.reproduction.source, reproduced.reproduction.setting, table_to_text(table),
                     std::ssize(reproduced.figures) - missed(reproduced), reproduced.figures.size());
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
      figures.push_back({{"what", figure.what},
                         {"published", figure.published},
                         {"predicted", figure.predicted},
                         {"tolerance", figure.tolerance},
                         {"claim", word_of(figure.claim)},
                         {"note", figure.note},
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

std::string reproductions_to_markdown(const std::vector<Reproduced>& all) {
  std::string overview = "| experiment | source | figures | hold |\n|---|---|---|---|\n";
  std::string sections;
  for (const Reproduced& reproduced : all) {
    const Reproduction& experiment = reproduced.reproduction;
    overview += fmt::format("| [{0}](#{0}) | {1} | {2} | {3} |\n", experiment.name, experiment.source,
                            reproduced.figures.size(), std::ssize(reproduced.figures) - missed(reproduced));
    sections += fmt::format(
        "\n### {}\n\n{}. {}.\n\n| figure | published | predicted | verdict |\n|---|---|---|---|\n",
        experiment.name, experiment.source, experiment.setting);
    for (const ReproducedFigure& figure : reproduced.figures) {
      sections += fmt::format("| {} | {} | {} | {} |\n", what_of(figure), figure_text(figure.published),
                              figure_text(figure.predicted), verdict_of(figure));
    }
  }
  return overview + sections;
}

}  // namespace penstock
