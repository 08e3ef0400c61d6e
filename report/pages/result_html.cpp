// Writes the page of one Result. First come the headlines, memory faults and notes, the causes of idle
// time, and the timeline, because most readers need these. The tables follow. sweep_html.cpp writes the
// page of a Sweep instead. Tested by html_report_test.cpp.

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "report/pages/html_report.hpp"
#include "report/pages/viewer.hpp"
#include "report/print/html_page.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/why/explanation.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

constexpr std::size_t kListedWaits = 10;

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

/// Returns the section on idle time: its causes, what to correct first, and the longest waits. The script
/// viewer.js turns the causes into buttons that colour their intervals.
std::string account_html(const Explanation& why) {
  std::string html =
      fmt::format("<h2>Why ranks are idle</h2>\n<p>{}</p>\n<div class=\"scroll causes\">\n{}</div>\n",
                  xml_escaped(idle_sentence(why)), table_to_html(bill_table(why)));
  html += table_section("What to mend first", lever_table(why));
  const std::vector<std::string> waits = longest_wait_lines(why, kListedWaits);
  if (waits.empty()) return html;
  html += "<details>\n<summary>The longest waits</summary>\n<ol>\n";
  for (const std::string& line : waits) html += fmt::format("<li>{}</li>\n", xml_escaped(line));
  return html + "</ol>\n</details>\n";
}

}  // namespace

std::string result_to_html(const Result& result, const Explanation* why) {
  HtmlPage page;
  page.title = fmt::format("{} with K = {} and M = {}, {}", result.program.schedule,
                           pipeline_size(result.program), result.program.microbatches, to_text(result.kind));
  page.body = headlines_html(result) + alarms_html(result);
  if (why != nullptr) page.body += account_html(*why);
  if (!result.timeline.spans.empty()) {
    page.has_viewer = true;
    page.body += "<h2>Timeline</h2>\n" + viewer_html({{.result = &result, .why = why}});
  }
  page.body += table_section("Ranks", rank_figures(result));
  if (!used_categories(result).empty()) {
    page.body += table_section("Peak of each kind of memory", peak_figures(result));
  }
  page.body += table_section("Links", link_figures(result));
  return html_page(page);
}

}  // namespace penstock
