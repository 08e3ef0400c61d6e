// The page of one Result. It begins with the figures that most readers want: headlines, memory faults and
// notes, the timeline, memory over time, then the tables. sweep_html.cpp makes the page of a Sweep from the
// same parts. Tested by html_report_test.cpp.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "report/pages/html_report.hpp"
#include "report/pages/memory_chart.hpp"
#include "report/print/chart_svg.hpp"
#include "report/print/html_page.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/timeline_svg.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

std::string headlines_html(const Result& result) {
  std::string html = "<table class=\"headlines\">\n";
  for (const Headline& line : headlines(result)) {
    html +=
        fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", xml_escaped(line.name), xml_escaped(line.figure));
  }
  return html + "</table>\n";
}

std::string alarms_html(const Result& result) {
  std::string html;
  for (const std::string& line : out_of_memory_lines(result)) {
    html += fmt::format("<p class=\"alarm\">Out of memory: {}</p>\n", xml_escaped(line));
  }
  for (const std::string& note : result.notes)
    html += fmt::format("<p class=\"note\">Note: {}</p>\n", xml_escaped(note));
  return html;
}

std::string timeline_html(const Result& result) {
  if (result.timeline.spans.empty()) return "";
  return "<h2>Timeline</h2>\n<p class=\"note\">Ctrl or Shift with the wheel zooms, dragging moves, a double "
         "click "
         "shows all. Numbers are microbatches.</p>\n" +
         timeline_to_svg(result.timeline, {.communication = true, .least_pixels = 0});
}

std::string memory_html(const Result& result) {
  const std::vector<Chart> charts = memory_charts(result);
  if (charts.empty()) return "";
  std::string html = "<h2>Memory over time</h2>\n<div class=\"charts\">\n";
  for (const Chart& chart : charts) html += chart_to_svg(chart);
  return html + "</div>\n";
}

}  // namespace

std::string result_to_html(const Result& result) {
  HtmlPage page;
  page.title = fmt::format("{} with K = {} and M = {}, {}", result.program.schedule,
                           pipeline_size(result.program), result.program.microbatches, to_text(result.kind));
  page.body = headlines_html(result) + alarms_html(result) + timeline_html(result) + memory_html(result);
  page.body += table_section("Ranks", rank_figures(result));
  if (!used_categories(result).empty()) {
    page.body += table_section("Peak of each kind of memory", peak_figures(result));
  }
  page.body += table_section("Links", link_figures(result));
  return html_page(page);
}

}  // namespace penstock
