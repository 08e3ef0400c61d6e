// Sorts spans by rank and row for all pictures and the trace. An overlapped pair becomes one box. Spans of a
// row that overlap in time get different lanes. Lanes are assigned greedily by start time, which needs the
// fewest lanes for intervals (Kleinberg and Tardos, Algorithm Design, section 4.1). Among equal starts, spans
// without duration come first, because the next span can share their lane. Tests: chrome_trace_test.cpp.

#include "report/timeline/timeline_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

std::vector<std::vector<ComputeBox>> compute_boxes(const Timeline& timeline) {
  std::vector<std::vector<ComputeBox>> ranks(static_cast<std::size_t>(timeline.rank_count));
  // the first action of a pair, until its second action has been read
  const Span* first_leaf = nullptr;
  for (const Span& span : timeline.spans) {
    if (!is_compute(span.action.kind)) continue;
    auto& boxes = ranks[static_cast<std::size_t>(span.rank)];
    if (first_leaf != nullptr && first_leaf->rank == span.rank) {
      boxes.back().partner = span.action;
      boxes.back().end_ns = std::max(boxes.back().end_ns, span.end_ns);
      first_leaf = nullptr;
      continue;
    }
    boxes.push_back({span.action, std::nullopt, span.start_ns, span.end_ns});
    first_leaf = span.action.overlaps_next ? &span : nullptr;
  }
  for (auto& boxes : ranks) std::ranges::stable_sort(boxes, {}, &ComputeBox::start_ns);
  return ranks;
}

std::string to_text(const ComputeBox& box) {
  if (!box.partner) return to_text(box.action);
  return fmt::format("({};{})OVERLAP_F_B", to_text(box.action), to_text(*box.partner));
}

std::vector<std::int32_t> stages_of(const std::vector<ComputeBox>& boxes) {
  std::vector<std::int32_t> stages;
  for (const ComputeBox& box : boxes) {
    stages.push_back(box.action.stage);
    if (box.partner) stages.push_back(box.partner->stage);
  }
  std::ranges::sort(stages);
  stages.erase(std::ranges::unique(stages).begin(), stages.end());
  return stages;
}

TimelineRow row_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
    case ActionKind::backward:
    case ActionKind::backward_input:
    case ActionKind::backward_weight:
    case ActionKind::recompute:
    case ActionKind::step:
      return TimelineRow::compute;
    case ActionKind::send_forward:
    case ActionKind::send_backward:
      return TimelineRow::send;
    case ActionKind::recv_forward:
    case ActionKind::recv_backward:
      return TimelineRow::receive;
    case ActionKind::unshard:
    case ActionKind::reshard:
    case ActionKind::reduce_grad:
      return TimelineRow::collective;
  }
  return TimelineRow::compute;
}

std::vector<std::int32_t> lanes_of(std::span<const Span> spans) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(spans[a].start_ns, spans[a].end_ns) < std::pair(spans[b].start_ns, spans[b].end_ns);
  });
  std::vector<std::int32_t> lanes(spans.size());
  std::vector<Ns> lane_ends;
  for (const std::size_t index : order) {
    auto lane = std::ranges::find_if(lane_ends, [&](Ns end) { return end <= spans[index].start_ns; });
    if (lane == lane_ends.end()) lane = lane_ends.insert(lane_ends.end(), 0);
    *lane = spans[index].end_ns;
    lanes[index] = static_cast<std::int32_t>(lane - lane_ends.begin());
  }
  return lanes;
}

}  // namespace penstock
