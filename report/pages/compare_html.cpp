// Draws the timelines of a prediction and a measurement as one picture. Each rank r has two rows: row 2r
// shows the prediction, and row 2r + 1 shows the measurement.
//
//   rank 0 predicted  |F0|F1|    |B0|       both on one axis, so that the eye sees a delay;
//          measured   | F0 |F1|     |B0|    a tooltip also has the times in the other row
//
// Tested by html_report_test.cpp.

#include "report/pages/html_report.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/compare/compare.hpp"
#include "report/compare/compare_tables.hpp"
#include "report/print/html_page.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "report/timeline/timeline_svg.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

/// Returns one timeline that contains the spans of both timelines, with new rank numbers. It ends when the
/// longer of the two ends.
Timeline twin_timeline(const Timeline& predicted, const Timeline& measured) {
  Timeline twin{.rank_count = 2 * predicted.rank_count,
                .makespan_ns = std::max(predicted.makespan_ns, measured.makespan_ns),
                .spans = {}};
  for (Span span : predicted.spans) {
    span.rank = 2 * span.rank;
    twin.spans.push_back(span);
  }
  for (Span span : measured.spans) {
    span.rank = 2 * span.rank + 1;
    twin.spans.push_back(span);
  }
  std::ranges::stable_sort(twin.spans, {}, &Span::rank);
  return twin;
}

/// Makes the additional text of a tooltip: an action's times in the other timeline, and the errors of its
/// prediction.
class ActionErrorsByPlace {
 public:
  explicit ActionErrorsByPlace(const ResultPair& pair) {
    const std::vector<Span>& predicted = pair.predicted.timeline.spans;
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      places_.try_emplace(key_of(predicted[i].rank, predicted[i].action), predicted[i],
                          pair.measured.timeline.spans[i]);
    }
  }

  std::string remark(std::size_t row, const ComputeBox& box) const {
    const auto found = places_.find(key_of(static_cast<std::int32_t>(row / 2), box.action));
    if (found == places_.end()) return "";
    const auto& [predicted, measured] = found->second;
    const Span& other = row % 2 == 0 ? measured : predicted;
    return fmt::format(
        "{} {} to {} ({})\npredicted minus measured: start {}, duration {}",
        row % 2 == 0 ? "measured" : "predicted", format_duration(other.start_ns),
        format_duration(other.end_ns), format_duration(other.end_ns - other.start_ns),
        signed_duration(predicted.start_ns - measured.start_ns),
        signed_duration(predicted.end_ns - predicted.start_ns - measured.end_ns + measured.start_ns));
  }

 private:
  /// A rank and the fields that identify an action in all iterations. Microbatch numbers continue over
  /// iterations. STEPs of different iterations differ in their weight version.
  using Key = std::tuple<std::int32_t, ActionKind, std::int32_t, std::int32_t, std::int32_t>;

  static Key key_of(std::int32_t rank, const Action& action) {
    return {rank, action.kind, action.stage, action.microbatch, action.weight_version};
  }

  std::map<Key, std::pair<Span, Span>> places_;
};

/// Returns both timelines of a pair as a picture. `id` must be different for each picture of a page, because
/// SVG patterns and clip paths are found by name.
std::string timelines_html(const ResultPair& pair, std::string id) {
  const Timeline& predicted = pair.predicted.timeline;
  const Timeline& measured = pair.measured.timeline;
  if (predicted.spans.empty() || measured.spans.empty())
    return "<p class=\"note\">No timelines: write both results with --timeline.</p>\n";
  const ActionErrorsByPlace errors(pair);
  TimelineSvgOptions options{
      .communication = true, .least_pixels = 0, .rows_in_group = 2, .id = std::move(id)};
  for (std::int32_t rank = 0; rank < predicted.rank_count; ++rank) {
    options.row_names.push_back(fmt::format("rank {} predicted", rank));
    options.row_names.emplace_back("measured");
  }
  options.remark = [&](std::size_t row, const ComputeBox& box) { return errors.remark(row, box); };
  return timeline_to_svg(twin_timeline(predicted, measured), options);
}

constexpr std::string_view kHowToRead =
    "<p class=\"note\">Both on one axis of time, predicted over measured. Pointing at an action shows its "
    "errors. "
    "Ctrl or Shift with the wheel zooms, dragging moves, a double click shows all.</p>\n";

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

std::string comparison_to_html(const Comparison& comparison, const ResultPair& pair) {
  HtmlPage page;
  page.title = fmt::format("{}: predicted and measured", comparison.name);
  page.body = fmt::format("{}<div class=\"scroll\">\n{}</div>\n", beyond_html(comparison),
                          table_to_html(compared_figures(comparison)));
  page.body += fmt::format("<p>{}</p>\n", xml_escaped(parts_sentence(comparison)));
  page.body += fmt::format("<h2>Timelines</h2>\n{}{}", kHowToRead, timelines_html(pair, ""));
  page.body += table_section("Errors by rank, predicted minus measured", rank_errors(comparison));
  page.body += notes_html(comparison);
  page.body +=
      table_section("Mean durations and errors of the start by kind of action", action_errors(comparison));
  return html_page(page);
}

std::string comparisons_to_html(const std::vector<Comparison>& comparisons,
                                const std::vector<ResultPair>& pairs, const Ranking& ranking) {
  HtmlPage page;
  page.title = fmt::format("{}: predicted and measured",
                           format_count(static_cast<std::int64_t>(comparisons.size()), "schedule"));
  for (const std::string& line : wrong_ranks(ranking))
    page.body += fmt::format("<p class=\"alarm\">Ranked wrong: {}</p>\n", xml_escaped(line));
  page.body += table_section("Ranking", ranking_rows(ranking));
  page.body += fmt::format("<p>{}</p>\n", xml_escaped(ranking_sentence(ranking)));
  page.body += table_section("Errors, predicted minus measured", comparison_overview(comparisons));
  page.body += kHowToRead;
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    page.body += fmt::format("<h2>{}</h2>\n{}<p>{}</p>\n{}", xml_escaped(comparisons[i].name),
                             beyond_html(comparisons[i]), xml_escaped(parts_sentence(comparisons[i])),
                             timelines_html(pairs[i], fmt::format("-{}", i)));
  }
  return html_page(page);
}

}  // namespace penstock
