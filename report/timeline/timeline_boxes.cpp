// Merges boxes that are narrower than a pixel or two, so that a picture of a million actions stays small. A
// merged rectangle starts at least `least_ns` after the previous rectangle, or follows a wide one. Therefore
// a row has at most 2 * makespan / least_ns + 2 rectangles for any number of actions. If all rows together
// exceed the budget, least_ns is doubled. Tests: timeline_svg_test.cpp.

#include "report/timeline/timeline_boxes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "report/print/units.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_rows.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// Returns a rectangle for one box. Its shares are computed only when another box is merged into it.
DrawnBox drawn(const ComputeBox& box) { return {box, box, 1, {}, box.start_ns, box.end_ns}; }

/// Adds time to the share of a kind. The list has each kind once, in the order of the enum.
void add_share(std::vector<KindShare>& shares, ActionKind kind, Ns time_ns) {
  auto place = std::ranges::find_if(shares, [&](const KindShare& share) { return share.kind >= kind; });
  if (place == shares.end() || place->kind != kind) place = shares.insert(place, {kind, 0});
  place->time_ns += time_ns;
}

/// Adds the time of a box to the shares of a rectangle. Each action of an overlapped pair gets half of the
/// time.
void add_shares(DrawnBox& group, const ComputeBox& box) {
  const Ns second_ns = box.partner ? box.duration_ns() / 2 : 0;
  add_share(group.shares, box.action.kind, box.duration_ns() - second_ns);
  if (box.partner) add_share(group.shares, box.partner->kind, second_ns);
}

/// Merges `box` into the rectangle before it.
void join(DrawnBox& group, const ComputeBox& box) {
  if (!group.merged()) add_shares(group, group.shown);
  add_shares(group, box);
  group.last = box;
  group.end_ns = std::max(group.end_ns, box.end_ns);
  ++group.count;
}

/// Returns the number of XML elements that draw a rectangle. An action needs a rectangle and a tooltip, and a
/// number if the box is wide. A pair needs two rectangles and two tooltips. A merged box needs a group, a
/// tooltip, a rectangle and its hatching.
std::size_t elements_of(const DrawnBox& box, Ns wide_ns) {
  if (box.merged()) return 4;
  const std::size_t leaves = box.shown.partner ? 2 : 1;
  return leaves * (box.end_ns - box.start_ns >= wide_ns ? 3 : 2);
}

/// The number of XML elements of a vertical line for a step: the line and its tooltip.
constexpr std::size_t kElementsPerStep = 2;

std::size_t elements_of(const DrawnRow& row, Ns wide_ns) {
  std::size_t elements = kElementsPerStep * row.steps.size();
  for (const DrawnBox& box : row.boxes) elements += elements_of(box, wide_ns);
  return elements;
}

/// The contents of a row: the boxes that take time, and the steps drawn as vertical lines. A short step that
/// takes time is in both lists.
struct SplitRow {
  std::vector<ComputeBox> boxes;
  std::vector<ComputeBox> steps;
};

SplitRow split(const std::vector<ComputeBox>& boxes, Ns step_ns) {
  SplitRow row;
  for (const ComputeBox& box : boxes) {
    if (box.duration_ns() > 0) row.boxes.push_back(box);
    // A line is drawn over the box, because an update of the weights must be visible even if it is short.
    if (box.action.kind == ActionKind::step && box.duration_ns() < step_ns) row.steps.push_back(box);
  }
  return row;
}

/// Returns the times as text: "12.000 ms to 13.000 ms (1.000 ms)", or "at 12.000 ms" if start and end are
/// equal.
std::string times_text(Ns start_ns, Ns end_ns) {
  if (start_ns == end_ns) return "at " + format_duration(start_ns);
  return fmt::format("{} to {} ({})", format_duration(start_ns), format_duration(end_ns),
                     format_duration(end_ns - start_ns));
}

std::string version_text(const ComputeBox& box) {
  std::string text = fmt::format("weight version {}", box.action.weight_version);
  if (box.partner) text += fmt::format(" and {}", box.partner->weight_version);
  return text;
}

}  // namespace

std::vector<DrawnBox> merge_narrow(const std::vector<ComputeBox>& boxes, Ns least_ns) {
  std::vector<DrawnBox> merged;
  // true if more narrow boxes can join the last rectangle
  bool open = false;
  for (const ComputeBox& box : boxes) {
    const bool narrow = box.duration_ns() < least_ns;
    if (open && narrow && box.start_ns - merged.back().start_ns < least_ns) {
      join(merged.back(), box);
    } else {
      merged.push_back(drawn(box));
    }
    open = narrow;
  }
  return merged;
}

std::vector<DrawnRow> drawn_rows(const std::vector<std::vector<ComputeBox>>& ranks,
                                 const DrawingBudget& budget) {
  std::vector<SplitRow> split_rows;
  Ns latest = 0;
  for (const auto& boxes : ranks) {
    split_rows.push_back(split(boxes, budget.step_ns));
    if (!boxes.empty()) latest = std::max(latest, boxes.back().end_ns);
  }
  std::vector<DrawnRow> rows;
  for (Ns least = std::max<Ns>(1, budget.least_ns);; least *= 2) {
    rows.clear();
    std::size_t elements = 0;
    for (const SplitRow& row : split_rows) {
      rows.push_back({merge_narrow(row.boxes, least), merge_narrow(row.steps, least)});
      elements += elements_of(rows.back(), budget.wide_ns);
    }
    // The loop ends when each row is one rectangle, or before least_ns would overflow 64 bits.
    const bool one_a_row = least > latest || least > std::numeric_limits<Ns>::max() / 2;
    if (elements <= budget.most_elements || one_a_row) return rows;
  }
}

std::string tooltip_of(const DrawnBox& box) {
  const std::string times = times_text(box.start_ns, box.end_ns);
  if (!box.merged()) return fmt::format("{}, {}, {}", to_text(box.shown), times, version_text(box.shown));
  return fmt::format("{} to {}, {} actions, {}", to_text(box.shown), to_text(box.last), box.count, times);
}

std::string tooltip_of(const Span& span) {
  return fmt::format("{}, {}", to_text(span.action), times_text(span.start_ns, span.end_ns));
}

}  // namespace penstock
