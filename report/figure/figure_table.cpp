// Writes the figures (makespan, bubble and others) of the runs in a picture's panels as a table, in LaTeX
// and in JSON. Tested by figure_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/figure/figure.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// Returns the number of messages that all ranks of a run send together.
std::int64_t sends_of(const Result& result) {
  return std::ranges::count_if(result.timeline.spans, [](const Span& span) {
    return span.action.kind == ActionKind::send_forward || span.action.kind == ActionKind::send_backward;
  });
}

MemoryUnit memory_unit_of(const Result& result) {
  return result.ranks.empty() ? MemoryUnit::bytes : result.ranks.front().memory.unit;
}

std::string peak_text(const Result& result) {
  return format_memory(highest_peak_bytes(result), memory_unit_of(result));
}

}  // namespace

Table figure_table(const std::vector<FigurePanel>& panels) {
  Table table;
  table.columns = {"schedule", "makespan", "bubble", "idle by formula", "its bubble", "peak memory", "sends"};
  for (const FigurePanel& panel : panels) {
    const Result& result = panel.result;
    table.rows.push_back(
        {text_cell(panel.label), duration_cell(result.makespan_ns),
         percent_cell(result.bubble.idle_over_total), text_cell(panel.formula),
         panel.formula_bubble ? percent_cell(*panel.formula_bubble) : text_cell(""),
         Cell{.text = peak_text(result), .value = static_cast<double>(highest_peak_bytes(result))},
         count_cell(sends_of(result))});
  }
  return table;
}

std::string figure_latex(const std::vector<FigurePanel>& panels) {
  std::string text =
      "\\begin{tabular}{lrlrrr}\n\\hline\n"
      "schedule & bubble & idle by formula & its bubble & peak memory & sends \\\\\n\\hline\n";
  for (const FigurePanel& panel : panels) {
    const std::string formula = panel.formula.empty() ? "" : fmt::format("${}$", panel.formula);
    const std::string by_formula = panel.formula_bubble ? format_percent(*panel.formula_bubble) : "";
    text += fmt::format("{} & {} & {} & {} & {} & {} \\\\\n", latex_escaped(panel.label),
                        latex_escaped(format_percent(panel.result.bubble.idle_over_total)), formula,
                        latex_escaped(by_formula), latex_escaped(peak_text(panel.result)),
                        sends_of(panel.result));
  }
  return text + "\\hline\n\\end{tabular}\n";
}

std::string figure_json(const std::vector<FigurePanel>& panels) {
  using Json = nlohmann::ordered_json;
  Json document = {{"schema_version", 1}, {"kind", "figure"}, {"panels", Json::array()}};
  for (const FigurePanel& panel : panels) {
    document["panels"].push_back(
        {{"label", panel.label},
         {"schedule", panel.result.program.schedule},
         {"makespan_ns", panel.result.makespan_ns},
         {"idle_over_total", panel.result.bubble.idle_over_total},
         {"formula", panel.formula.empty() ? Json(nullptr) : Json(panel.formula)},
         {"formula_idle_over_total", panel.formula_bubble ? Json(*panel.formula_bubble) : Json(nullptr)},
         {"peak_bytes", amount_json<Json>(highest_peak_bytes(panel.result), memory_unit_of(panel.result))},
         {"sends", sends_of(panel.result)}});
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace penstock
