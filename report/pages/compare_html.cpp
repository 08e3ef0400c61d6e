// Writes the page of a comparison: its verdict and figures, and both timelines on one axis.
//
//   rank 0 predicted  |F0|F1|    |B0|       two rows a rank, so that the eye sees a delay;
//          measured   | F0 |F1|     |B0|    pointing at an action shows the times of both runs
//
// Tested by html_report_test.cpp.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "report/compare/compare.hpp"
#include "report/compare/compare_tables.hpp"
#include "report/pages/html_report.hpp"
#include "report/pages/viewer.hpp"
#include "report/print/html_page.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

/// Returns the viewer of the predicted and the measured run, in which each rank has two rows.
std::string timelines_html(const ResultPair& pair, const ExplainedPair& why) {
  return viewer_html({{.name = "predicted", .result = &pair.predicted, .why = why.predicted},
                      {.name = "measured", .result = &pair.measured, .why = why.measured}});
}

std::string beyond_html(const Comparison& comparison) {
  if (comparison.passed()) return "";
  return "<p class=\"alarm\">A figure is beyond its tolerance.</p>\n";
}

std::string notes_html(const Comparison& comparison) {
  std::string html;
  for (const std::string& note : comparison.notes)
    html += fmt::format("<p class=\"note\">Note: {}</p>\n", xml_escaped(note));
  return html;
}

}  // namespace

std::string comparison_to_html(const Comparison& comparison, const ResultPair& pair,
                               const ExplainedPair& why) {
  HtmlPage page;
  page.has_viewer = true;
  page.title = fmt::format("{}: predicted and measured", comparison.name);
  page.body = fmt::format("{}<div class=\"scroll\">\n{}</div>\n", beyond_html(comparison),
                          table_to_html(compared_figures(comparison)));
  page.body += fmt::format("<p>{}</p>\n", xml_escaped(parts_sentence(comparison)));
  page.body += fmt::format("<h2>Timelines</h2>\n{}", timelines_html(pair, why));
  page.body += table_section("Errors by rank, predicted minus measured", rank_errors(comparison));
  page.body += notes_html(comparison);
  page.body +=
      table_section("Mean durations and errors of the start by kind of action", action_errors(comparison));
  return html_page(page);
}

std::string comparisons_to_html(const std::vector<Comparison>& comparisons,
                                const std::vector<ResultPair>& pairs, const Ranking& ranking) {
  HtmlPage page;
  page.has_viewer = true;
  page.title = fmt::format("{}: predicted and measured",
                           format_count(static_cast<std::int64_t>(comparisons.size()), "schedule"));
  for (const std::string& line : wrong_ranks(ranking))
    page.body += fmt::format("<p class=\"alarm\">Ranked wrong: {}</p>\n", xml_escaped(line));
  page.body += table_section("Ranking", ranking_rows(ranking));
  page.body += fmt::format("<p>{}</p>\n", xml_escaped(ranking_sentence(ranking)));
  page.body += table_section("Errors, predicted minus measured", comparison_overview(comparisons));
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    page.body += fmt::format("<h2>{}</h2>\n{}<p>{}</p>\n{}", xml_escaped(comparisons[i].name),
                             beyond_html(comparisons[i]), xml_escaped(parts_sentence(comparisons[i])),
                             timelines_html(pairs[i], {}));
  }
  return html_page(page);
}

}  // namespace penstock
