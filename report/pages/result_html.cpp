// Writes the page of one Result. First come the headlines, memory faults and notes, the causes of idle
// time, and the timeline, because most readers need these. The tables follow. sweep_html.cpp writes the
// page of a Sweep instead. Tested by html_report_test.cpp.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "report/compare/compare.hpp"
#include "report/pages/html_report.hpp"
#include "report/print/html_page.hpp"
#include "report/print/memory_category.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
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

std::string section_html(const PageSection& section) {
  std::string html = fmt::format("<h2>{}</h2>\n", xml_escaped(section.title));
  for (const std::string& line : section.lines) html += fmt::format("<p>{}</p>\n", xml_escaped(line));
  if (section.table.rows.empty()) return html;
  return html + fmt::format("<div class=\"scroll\">\n{}</div>\n", table_to_html(section.table));
}

}  // namespace

std::string result_to_html(const Result& result, const Explanation* why,
                           const std::vector<PageSection>& first) {
  HtmlPage page;
  page.title = fmt::format("{} with K = {} and M = {}, {}", result.program.schedule,
                           pipeline_size(result.program), result.program.microbatches, to_text(result.kind));
  page.body = headlines_html(result) + alarms_html(result);
  for (const PageSection& section : first) page.body += section_html(section);
  if (why != nullptr) page.body += account_html(*why);
  if (!result.timeline.spans.empty()) {
    page.has_viewer = true;
    page.body += "<h2>Timeline</h2>\n" + viewer_html({{.result = &result, .why = why}});
  }
  page.body += table_section("Ranks", rank_figures(result));
  // With one kind of memory, its peaks are those of the table of ranks.
  if (used_categories(result).size() > 1) {
    page.body += table_section("Peak of each kind of memory", peak_figures(result));
  }
  page.body += table_section("Links", link_figures(result));
  return html_page(page);
}

// Writes the page of a comparison: its verdict and figures, and both timelines on one axis.
//
//   rank 0 predicted  |F0|F1|    |B0|       two rows a rank, so that the eye sees a delay;
//          measured   | F0 |F1|     |B0|    pointing at an action shows the times of both runs
//
// Tested by html_report_test.cpp.

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
  page.body += fmt::format("<p>{}</p>\n", xml_escaped(error_sentence(comparison)));
  page.body += table_section("Error by cause, of the mean rank", cause_errors(comparison));
  page.body += fmt::format("<h2>Timelines</h2>\n{}", timelines_html(pair, why));
  page.body += table_section("Errors by rank", rank_errors(comparison));
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
    page.body += fmt::format("<h2>{}</h2>\n{}<p>{}</p>\n{}{}", xml_escaped(comparisons[i].name),
                             beyond_html(comparisons[i]), xml_escaped(error_sentence(comparisons[i])),
                             table_section("Error by cause, of the mean rank", cause_errors(comparisons[i])),
                             timelines_html(pairs[i], {}));
  }
  return html_page(page);
}

// Writes the part of a page that the viewer's script replaces. It holds a compressed text with the runs,
// and a picture for readers whose browser runs no script. Tests: viewer_test.cpp.

namespace {

// The largest number of XML elements in the picture. The picture is coarse, so that the page of a schedule
// with 64 ranks and 512 microbatches stays below 100 kB. timeline_to_svg() counts at least two elements for
// each box.
constexpr std::size_t kMostElements = 1'200;

/// Returns the number of the time slice that contains a time, from 0 to `slots` - 1. The run from 0 to
/// `end_ns` has `slots` equal slices. For `end_ns` itself, returns `slots`.
std::size_t slot_of(Ns time_ns, Ns end_ns, std::size_t slots) {
  if (end_ns <= 0) return 0;
  const double share = static_cast<double>(time_ns) / static_cast<double>(end_ns);
  return static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(slots));
}

}  // namespace

std::string viewer_html(const std::vector<ViewedRun>& runs) {
  const auto is_empty = [](const ViewedRun& run) { return run.result->timeline.spans.empty(); };
  if (std::ranges::any_of(runs, is_empty))
    return "<p class=\"note\">No timelines: write both results with --timeline.</p>\n";
  std::string html = "<div class=\"viewer\">\n<figure>\n";
  for (const ViewedRun& run : runs) {
    if (!run.name.empty()) html += fmt::format("<figcaption>{}</figcaption>\n", xml_escaped(run.name));
    html +=
        timeline_to_svg(run.result->timeline,
                        {.least_pixels = 0, .most_elements = kMostElements / runs.size(), .tooltips = false});
  }
  return html +
         fmt::format("</figure>\n<script type=\"text/plain\">{}</script>\n</div>\n", packed_runs(runs));
}

std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples, Ns end_ns, std::size_t slots) {
  std::vector<MemorySample> kept;
  for (std::size_t begin = 0; begin < samples.size();) {
    const std::size_t slot = slot_of(samples[begin].time_ns, end_ns, slots);
    std::size_t largest = begin;
    std::size_t end = begin;
    for (; end < samples.size() && slot_of(samples[end].time_ns, end_ns, slots) == slot; ++end) {
      if (total_bytes(samples[end].bytes) > total_bytes(samples[largest].bytes)) largest = end;
    }
    kept.push_back(samples[largest]);
    if (largest + 1 < end) kept.push_back(samples[end - 1]);
    begin = end;
  }
  return kept;
}

}  // namespace penstock
