// The page of one Result. The figures that most readers need come first: headlines, memory faults and notes,
// the timeline, and memory over time. The tables follow. sweep_html.cpp makes the page of a Sweep. Tested by
// html_report_test.cpp.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/pages/html_report.hpp"
#include "report/print/chart_svg.hpp"
#include "report/print/html_page.hpp"
#include "report/print/memory_category.hpp"
#include "report/print/palette.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/timeline_svg.hpp"
#include "schedules/ir/action.hpp"
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

// Draws a memory chart for each rank. Each category is a band, and the bands are stacked. A sample is valid
// until the next sample.
//
//   bytes |      ____          The bands follow the order of the enum. The top of the highest band
//         |  ___|////|___      is the memory of the rank. All charts of a page share both axes.
//         |_|////////////|_
//         +----------------- time
//
// A run has more samples than a chart has pixels. Therefore time is divided into 300 slices, and each slice
// shows two samples: the largest one, so that the peak is visible, and the last one, with whose value the
// next slice starts. Tests: timeline_svg_test.cpp.

namespace {

// The number of slices, which is about the width of a plot in pixels.
constexpr std::size_t kSlots = 300;

/// Returns the number of the slice that contains a time, from 0 to `slots` - 1. For `end_ns` itself it
/// returns `slots`.
std::size_t slot_of(Ns time_ns, Ns end_ns, std::size_t slots) {
  if (end_ns <= 0) return 0;
  const double share = static_cast<double>(time_ns) / static_cast<double>(end_ns);
  return static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(slots));
}

std::string category_label(MemoryCategory category) {
  std::string label(to_text(category));
  std::ranges::replace(label, '_', ' ');
  return label;
}

/// Returns one band for each category. Each band lies on top of the band before it.
std::vector<ChartBand> bands_of(const std::vector<MemorySample>& samples,
                                const std::vector<MemoryCategory>& used, MemoryUnit unit, Ns end_ns) {
  std::vector<ChartBand> bands;
  // The total height of the bands that are already drawn, for each sample.
  std::vector<double> floor(samples.size(), 0);
  for (const MemoryCategory category : used) {
    ChartBand band = {category_label(category), colour_of(category), {}, static_cast<double>(end_ns)};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double high = floor[i] + shown_amount(samples[i].bytes[static_cast<std::size_t>(category)], unit);
      band.steps.push_back({static_cast<double>(samples[i].time_ns), floor[i], high});
      floor[i] = high;
    }
    bands.push_back(std::move(band));
  }
  return bands;
}

std::string title_of(const RankReport& rank) {
  const RankMemory& memory = rank.memory;
  std::string title =
      fmt::format("rank {}: peak {}", rank.rank, format_memory(memory.peak_bytes, memory.unit));
  if (memory.capacity) title += fmt::format(" of {}", available_text(memory));
  if (rank.memory.out_of_memory()) title += ", out of memory";
  return title;
}

/// Returns the right end of all x axes. All axes have the same end, so that readers can compare the charts
/// and the timeline.
Ns shared_end(const Result& result) {
  Ns end_ns = result.makespan_ns;
  for (const RankReport& rank : result.ranks) {
    if (!rank.memory.samples.empty()) end_ns = std::max(end_ns, rank.memory.samples.back().time_ns);
  }
  return end_ns;
}

/// Returns the samples to draw. The first one is at time 0. If the rank has no sample at time 0, it holds 0
/// bytes there.
std::vector<MemorySample> drawn_samples(const std::vector<MemorySample>& samples, Ns end_ns) {
  std::vector<MemorySample> drawn = thinned(samples, end_ns, kSlots);
  if (drawn.front().time_ns > 0) drawn.insert(drawn.begin(), MemorySample{});
  return drawn;
}

/// Returns the usable capacity. Returns nothing if the line at the capacity would be so high that the bands
/// look flat.
std::optional<Bytes> drawn_capacity(const RankMemory& memory, Bytes highest) {
  const std::optional<Bytes> usable = memory.usable();
  return usable && *usable / 2 <= highest ? usable : std::nullopt;
}

/// Returns the top of all y axes. It is the highest peak, or a drawn capacity that is higher.
Bytes shared_top(const Result& result) {
  const Bytes highest = highest_peak_bytes(result);
  Bytes top = highest;
  for (const RankReport& rank : result.ranks) {
    top = std::max(top, drawn_capacity(rank.memory, highest).value_or(0));
  }
  return top;
}

}  // namespace

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

std::vector<Chart> memory_charts(const Result& result) {
  const std::vector<MemoryCategory> used = used_categories(result);
  const Bytes highest = highest_peak_bytes(result);
  const Ns end_ns = shared_end(result);
  const Bytes top = shared_top(result);
  std::vector<Chart> charts;
  for (const RankReport& rank : result.ranks) {
    if (rank.memory.samples.empty() || used.empty()) continue;
    Chart chart;
    chart.title = title_of(rank);
    chart.x_unit = AxisUnit::nanoseconds;
    chart.y_unit = rank.memory.unit == MemoryUnit::bytes ? AxisUnit::bytes : AxisUnit::plain;
    chart.height = 210;
    chart.least_top = shown_amount(top, rank.memory.unit);
    chart.bands = bands_of(drawn_samples(rank.memory.samples, end_ns), used, rank.memory.unit, end_ns);
    if (const auto drawn = drawn_capacity(rank.memory, highest)) {
      const double capacity = shown_amount(*drawn, rank.memory.unit);
      chart.curves.push_back(
          {.label = rank.memory.reserved > 0 ? "usable" : "capacity",
           .colour = {0xb0, 0x00, 0x20},
           .dashed = true,
           .points = {{.x = 0, .y = capacity}, {.x = static_cast<double>(end_ns), .y = capacity}}});
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace penstock
