// Draws a timeline from top to bottom: the title, the legend, a row for each rank, and the axis. Below its
// boxes, a row has up to three thin bars for communication:
//
//   rank 0  |F0|F1|F2|        |B0|   |B1|        boxes: compute; a pair is cut in two lengthwise
//             --- ---                            bars: send, receive, collective, where some rank has them
//   rank 1     |F0|F1|B0|
//
// Coordinates of boxes are pixels from the left edge of the plot. If a rank has several stages, later stages
// are paler. Tested by timeline_svg_test.cpp.

#include "report/timeline/timeline_boxes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/print/chart_svg.hpp"
#include "report/print/palette.hpp"
#include "report/print/units.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

constexpr double kRowHeight = 24;
constexpr double kRowGap = 6;
constexpr double kBarHeight = 4;
constexpr double kTitleHeight = 26;
constexpr double kAxisHeight = 34;
constexpr double kRightMargin = 24;
// A STEP that is narrower than this is drawn as a mark.
constexpr double kLeastStepWidth = 2;
constexpr double kLeastBarWidth = 0.8;
constexpr Colour kIdleColour = {0xe9, 0xe9, 0xe9};

using Ranks = std::vector<std::vector<ComputeBox>>;

/// The positions of the parts of the picture, in pixels.
struct SvgLayout {
  double width = 0;
  double height = 0;
  double left = 0;
  double plot_width = 0;
  LegendPlace legend;
  double rows_top = 0;
  double row_pitch = 0;
  double axis_top = 0;
  // The times at the left and right edges of the plot.
  Ns from_ns = 0;
  Ns to_ns = 0;

  /// Returns the x coordinate of a time, in pixels. A time outside the plot gets the coordinate of the
  /// nearer edge.
  double x(Ns time_ns) const {
    if (to_ns <= from_ns) return 0;
    const Ns inside_ns = std::clamp(time_ns, from_ns, to_ns) - from_ns;
    return static_cast<double>(inside_ns) / static_cast<double>(to_ns - from_ns) * plot_width;
  }
  double row_top(std::size_t row) const { return rows_top + row_pitch * static_cast<double>(row); }
};

/// Returns the kinds of communication bars that at least one rank has, in drawing order.
std::vector<TimelineRow> bars_of(const Timeline& timeline, const TimelineSvgOptions& options) {
  std::set<TimelineRow> rows;
  for (const Span& span : timeline.spans) {
    if (span.end_ns > span.start_ns) rows.insert(row_of(span.action.kind));
  }
  rows.erase(TimelineRow::compute);
  if (!options.communication) rows.clear();
  return {rows.begin(), rows.end()};
}

/// Returns the kinds of actions that the picture shows as boxes or bars. The legend lists them.
std::set<ActionKind> drawn_kinds(const Timeline& timeline, const std::vector<TimelineRow>& bars) {
  std::set<ActionKind> kinds;
  for (const Span& span : timeline.spans) {
    const bool bar = std::ranges::find(bars, row_of(span.action.kind)) != bars.end();
    if (is_compute(span.action.kind) || (bar && span.end_ns > span.start_ns)) kinds.insert(span.action.kind);
  }
  return kinds;
}

/// Returns the legend entry for merged boxes, or nothing if there are none. It has the colour of the merged
/// box with the largest number of kinds, or of the first such box.
std::optional<LegendEntry> several_entry(const std::vector<DrawnRow>& rows) {
  const DrawnBox* most = nullptr;
  for (const DrawnRow& row : rows) {
    for (const DrawnBox& box : row.boxes) {
      if (box.merged() && (most == nullptr || box.shares.size() > most->shares.size())) most = &box;
    }
  }
  if (most == nullptr) return std::nullopt;
  return LegendEntry{"several actions, too narrow to draw", mixed_colour(most->shares), kSeveralPattern};
}

/// Returns the legend entries: the action kinds that the picture shows, merged boxes and idle time. If a
/// rank has several stages, the legend also explains their shades.
std::vector<LegendEntry> legend_entries(const Timeline& timeline, const std::vector<TimelineRow>& bars,
                                        const Ranks& ranks, const std::vector<DrawnRow>& rows) {
  std::vector<LegendEntry> entries;
  for (const ActionKind kind : drawn_kinds(timeline, bars)) {
    entries.push_back({std::string(description_of(kind)), colour_of(kind),
                       kind == ActionKind::recompute ? kRecomputePattern : ""});
  }
  if (const auto several = several_entry(rows)) entries.push_back(*several);
  entries.push_back({"idle", kIdleColour});
  const bool shaded =
      std::ranges::any_of(ranks, [](const auto& boxes) { return stages_of(boxes).size() > 1; });
  if (shaded) {
    entries.push_back({"paler: later stage of the rank", lightened(colour_of(ActionKind::forward), kPalest)});
  }
  return entries;
}

/// Returns the estimated width of the longest row name, in pixels.
double names_width(const Timeline& timeline, const TimelineWindow& window) {
  const std::int32_t last =
      window.ranks.empty() ? std::max(0, timeline.rank_count - 1) : std::ranges::max(window.ranks);
  return 30 + 7 * static_cast<double>(std::to_string(last).size());
}

/// Returns the horizontal part of the layout. It is needed first, because the number of boxes that fit
/// depends on it.
SvgLayout columns_of(const Timeline& timeline, const TimelineSvgOptions& options) {
  SvgLayout layout;
  layout.from_ns = options.window.from_ns;
  layout.to_ns = timeline.makespan_ns;
  layout.width = std::max(200, options.width);
  layout.left = 16 + names_width(timeline, options.window);
  layout.plot_width = layout.width - layout.left - kRightMargin;
  return layout;
}

/// Returns `layout` with its vertical part, which depends on the lines of the legend and on the bars of a
/// row.
SvgLayout layout_of(SvgLayout layout, const Timeline& timeline, const TimelineSvgOptions& options,
                    std::size_t bars, const std::vector<LegendEntry>& legend) {
  layout.legend = {layout.left, options.title.empty() ? 8 : kTitleHeight, layout.width - 8};
  layout.rows_top = layout.legend.top + legend_height(legend, layout.legend) + 4;
  layout.row_pitch = kRowHeight + kRowGap + static_cast<double>(bars) * (kBarHeight + 1);
  layout.axis_top = layout.row_top(static_cast<std::size_t>(timeline.rank_count)) - 2;
  layout.height = layout.axis_top + kAxisHeight;
  return layout;
}

/// Returns the colour that fills the box of a compute action. `stages` lists the stages of the rank, and
/// each stage has its own shade.
Colour shade_of(const Action& action, const std::vector<std::int32_t>& stages) {
  return lightened(colour_of(action.kind), paleness_of(action, stages));
}

/// Adds the boxes of a row that take time, and then draws the marks of STEPs over them.
void add_compute_row(BoxText& text, const DrawnRow& row, const std::vector<std::int32_t>& stages,
                     std::size_t number, const SvgLayout& layout) {
  const double top = layout.row_top(number);
  for (const DrawnBox& box : row.boxes) {
    const Rectangle at = {layout.x(box.start_ns), top, layout.x(box.end_ns) - layout.x(box.start_ns),
                          kRowHeight};
    const std::string tooltip = text.tooltips() ? tooltip_of(box) : "";
    const ComputeBox& shown = box.shown;
    if (box.merged()) {
      text.add_merged(mixed_colour(box.shares), at, tooltip);
    } else if (!shown.partner) {
      text.add_leaf(shown.action, shade_of(shown.action, stages), at, tooltip);
    } else {
      const double half = at.height / 2;
      text.add_leaf(shown.action, shade_of(shown.action, stages), {at.x, at.y, at.width, half}, tooltip);
      text.add_leaf(*shown.partner, shade_of(*shown.partner, stages), {at.x, at.y + half, at.width, half},
                    tooltip);
    }
  }
  for (std::size_t i = 0; i < row.steps.size(); ++i) {
    const double x = layout.x(row.steps[i].start_ns);
    // The distance to the nearest mark on either side, in pixels.
    double room = layout.plot_width;
    if (i > 0) room = std::min(room, x - layout.x(row.steps[i - 1].start_ns));
    if (i + 1 < row.steps.size()) room = std::min(room, layout.x(row.steps[i + 1].start_ns) - x);
    text.add_mark(colour_of(ActionKind::step), {x, top, 0, kRowHeight}, room, tooltip_of(row.steps[i]));
  }
}

/// Returns the spans that take time and are drawn as one of the bars, sorted by start.
std::vector<Span> bar_spans(const Timeline& timeline, const std::vector<TimelineRow>& bars) {
  std::vector<Span> spans;
  for (const Span& span : timeline.spans) {
    const bool drawn = std::ranges::find(bars, row_of(span.action.kind)) != bars.end();
    if (drawn && span.end_ns > span.start_ns) spans.push_back(span);
  }
  std::ranges::stable_sort(spans, {}, &Span::start_ns);
  return spans;
}

/// Adds transfers and collectives as thin bars below the row of their rank. If `least_distance` (in pixels)
/// is given, some bars are left out. A bar is left out if its end is less than `least_distance` beyond the
/// end of the bars already drawn in its row.
void add_bars(BoxText& text, const std::vector<Span>& spans, const std::vector<TimelineRow>& bars,
              const SvgLayout& layout, std::optional<double> least_distance) {
  // The last end of the bars of each rank and row, in pixels.
  std::map<std::pair<std::int32_t, TimelineRow>, double> covered_until;
  for (const Span& span : spans) {
    const TimelineRow row = row_of(span.action.kind);
    const double x = layout.x(span.start_ns);
    const double end = std::max(layout.x(span.end_ns), x + kLeastBarWidth);
    double& covered = covered_until[{span.rank, row}];
    if (least_distance && end < covered + *least_distance) continue;
    covered = std::max(covered, end);
    const auto place = static_cast<double>(std::ranges::find(bars, row) - bars.begin());
    const double top =
        layout.row_top(static_cast<std::size_t>(span.rank)) + kRowHeight + 1 + place * (kBarHeight + 1);
    text.add_bar(colour_of(span.action.kind), {x, top, end - x, kBarHeight}, tooltip_of(span));
  }
}

/// Returns the time axis as SVG, with ticks about 90 pixels apart.
std::string axis_svg(const SvgLayout& layout) {
  std::string svg;
  const int most = std::max(2, static_cast<int>(layout.plot_width / 90));
  const std::vector<Ns> ticks = ticks_between(layout.from_ns, layout.to_ns, most);
  for (const Ns tick : ticks) {
    const double x = layout.left + layout.x(tick);
    fmt::format_to(std::back_inserter(svg),
                   "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.2f}\" y2=\"{2:.2f}\" stroke=\"#555\"/>"
                   "<text x=\"{0:.2f}\" y=\"{3:.2f}\" text-anchor=\"middle\">{4}</text>\n",
                   x, layout.axis_top, layout.axis_top + 5, layout.axis_top + 18,
                   format_tick(tick, ticks.back()));
  }
  return svg;
}

/// Returns the beginning of the SVG picture: the patterns and the title.
std::string head_svg(const SvgLayout& layout, const TimelineSvgOptions& options) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\" "
      "fill=\"#222\">\n",
      layout.width, layout.height);
  if (options.tooltips) svg += fmt::format("<defs>{}</defs>\n", box_patterns_svg());
  svg += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  if (!options.title.empty()) {
    svg += fmt::format("<text x=\"{:.2f}\" y=\"17\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
                       layout.left, xml_escaped(options.title));
  }
  return svg;
}

/// Returns the names of the rows as SVG, and the grey background of each row, which shows idle time.
std::string row_labels_svg(const SvgLayout& layout, const TimelineWindow& window, std::size_t rows) {
  std::string names;
  std::string backgrounds;
  for (std::size_t row = 0; row < rows; ++row) {
    const double top = layout.row_top(row);
    fmt::format_to(std::back_inserter(names), "<text x=\"{:.6g}\" y=\"{:.6g}\">{}</text>\n", layout.left - 8,
                   top + kRowHeight / 2 + 4, window.name_of(row));
    fmt::format_to(std::back_inserter(backgrounds), "M{:.6g} {:.6g}h{:.6g}v{:.6g}h{:.6g}z", layout.left, top,
                   layout.plot_width, kRowHeight, -layout.plot_width);
  }
  return fmt::format("<g text-anchor=\"end\">\n{}</g>\n<path fill=\"{}\" d=\"{}\"/>\n", names,
                     to_hex(kIdleColour), backgrounds);
}

/// Returns the shortest time in ns whose box is at least `pixels` wide. Returns 0 for an empty picture.
Ns time_of_pixels(const SvgLayout& layout, double pixels) {
  return std::llround(
      std::ceil(pixels * static_cast<double>(layout.to_ns - layout.from_ns) / layout.plot_width));
}

/// Returns the largest number of XML elements that boxes may use. If the picture has bars, boxes get one
/// half of the elements and bars the other half. The legend and the axis need only few elements.
DrawingBudget budget_of(const SvgLayout& layout, const TimelineSvgOptions& options, std::size_t bars) {
  return {.least_ns = time_of_pixels(layout, options.least_pixels),
          .wide_ns = time_of_pixels(layout, label_width(1)),
          .step_ns = std::max<Ns>(1, time_of_pixels(layout, kLeastStepWidth)),
          .most_elements = bars == 0 ? options.most_elements : options.most_elements / 2};
}

/// Returns the smallest distance in pixels between the ends of a row's bars that keeps all bars within
/// their budget. Returns nothing if all bars fit.
std::optional<double> least_bar_distance(const SvgLayout& layout, const TimelineSvgOptions& options,
                                         std::size_t spans, std::size_t bar_rows) {
  constexpr std::size_t kElementsPerBar = 2;
  const std::size_t most_bars = std::max<std::size_t>(1, options.most_elements / 2 / kElementsPerBar);
  if (spans <= most_bars) return std::nullopt;
  return layout.plot_width * static_cast<double>(bar_rows) / static_cast<double>(most_bars);
}

}  // namespace

std::string timeline_to_svg(const Timeline& whole, const TimelineSvgOptions& options) {
  std::optional<Timeline> part;
  if (!options.window.shows_all()) part = part_of(whole, options.window);
  const Timeline& timeline = part ? *part : whole;
  const std::vector<TimelineRow> bars = bars_of(timeline, options);
  const Ranks ranks = compute_boxes(timeline);
  const SvgLayout columns = columns_of(timeline, options);
  const std::vector<DrawnRow> rows = drawn_rows(ranks, budget_of(columns, options, bars.size()));
  const std::vector<LegendEntry> legend = legend_entries(timeline, bars, ranks, rows);
  const SvgLayout layout = layout_of(columns, timeline, options, bars.size(), legend);
  BoxText text(options.tooltips);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    add_compute_row(text, rows[rank], stages_of(ranks[rank]), rank, layout);
  }
  const std::vector<Span> spans = bar_spans(timeline, bars);
  add_bars(text, spans, bars, layout,
           least_bar_distance(layout, options, spans.size(), bars.size() * ranks.size()));

  std::string svg = head_svg(layout, options) + legend_svg(legend, layout.legend);
  svg += row_labels_svg(layout, options.window, ranks.size());
  svg += fmt::format(
      "<g transform=\"translate({0:.2f},0)\">\n<g{1}>\n{2}</g>\n<g text-anchor=\"middle\" "
      "pointer-events=\"none\">\n{3}</g>\n</g>\n",
      layout.left, options.tooltips ? " stroke=\"#ffffff\" stroke-width=\"0.5\"" : "", text.boxes(),
      text.labels());
  return svg + axis_svg(layout) + "</svg>\n";
}

}  // namespace penstock
