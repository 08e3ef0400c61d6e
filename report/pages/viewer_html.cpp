// Writes the part of a page that the viewer's script replaces. It holds a compressed text with the runs,
// and a picture for readers whose browser runs no script. Tests: viewer_test.cpp.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "report/pages/viewer.hpp"
#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline_svg.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

// The largest number of XML elements in the picture. timeline_to_svg() counts at least two elements for each
// box.
constexpr std::size_t kMostElements = 8'000;

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
