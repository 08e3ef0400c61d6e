#include "report/timeline/timeline_window.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/print/units.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

std::string TimelineWindow::name_of(std::size_t row) const {
  return fmt::format("rank {}", ranks.empty() ? static_cast<std::int32_t>(row) : ranks.at(row));
}

Timeline part_of(const Timeline& timeline, const TimelineWindow& window) {
  constexpr std::int32_t kNoRow = -1;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(timeline.rank_count), kNoRow);
  Timeline part;
  part.rank_count = timeline.rank_count;
  part.makespan_ns = std::min(timeline.makespan_ns, window.to_ns);
  if (!window.ranks.empty()) part.rank_count = static_cast<std::int32_t>(window.ranks.size());
  for (std::int32_t row = 0; row < part.rank_count; ++row) {
    const auto place = static_cast<std::size_t>(row);
    rows.at(window.ranks.empty() ? place : static_cast<std::size_t>(window.ranks[place])) = row;
  }
  for (const Span& span : timeline.spans) {
    const std::int32_t row = rows.at(static_cast<std::size_t>(span.rank));
    // An action that takes no time is also shown if it lies at the start or the end of the window.
    const bool instant = span.start_ns == span.end_ns;
    const bool inside = instant ? window.from_ns <= span.start_ns && span.start_ns <= window.to_ns
                                : window.from_ns < span.end_ns && span.start_ns < window.to_ns;
    if (row == kNoRow || !inside) continue;
    part.spans.push_back(span);
    part.spans.back().rank = row;
  }
  return part;
}

void cut_to_window(std::vector<std::vector<ComputeBox>>& ranks, Ns from_ns, Ns to_ns) {
  for (auto& boxes : ranks) {
    for (ComputeBox& box : boxes) {
      box.start_ns = std::max(box.start_ns, from_ns) - from_ns;
      box.end_ns = std::min(box.end_ns, to_ns) - from_ns;
    }
  }
}

std::vector<Ns> ticks_between(Ns from_ns, Ns to_ns, int most) {
  if (from_ns == 0) return time_ticks(to_ns, most);
  if (to_ns <= from_ns) return {from_ns};
  const Ns step = std::max<Ns>(1, std::llround(nice_step(static_cast<double>(to_ns - from_ns), most)));
  std::vector<Ns> ticks;
  for (Ns tick = (from_ns + step - 1) / step * step; tick <= to_ns; tick += step) ticks.push_back(tick);
  if (ticks.empty()) ticks.push_back(from_ns);
  return ticks;
}

}  // namespace penstock
