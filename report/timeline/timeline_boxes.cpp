// Converts spans to the boxes of a picture. Spans are grouped into boxes and rows, narrow boxes are merged,
// and boxes are written as SVG. timeline_svg.cpp draws the whole picture. Tested by timeline_svg_test.cpp and
// chrome_trace_test.cpp.
#include "report/timeline/timeline_boxes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/palette.hpp"
#include "report/print/units.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"

namespace penstock {

// Groups spans by rank and row, for pictures and for the trace. An overlapped pair becomes one box. Spans of
// a row that overlap in time are placed in different lanes. Lanes are assigned greedily by start time, which
// needs the fewest lanes (Kleinberg and Tardos, Algorithm Design, section 4.1). Among spans with the same
// start, a span without duration comes first, because the next span can use the same lane.

std::vector<std::vector<ComputeBox>> compute_boxes(const Timeline& timeline) {
  std::vector<std::vector<ComputeBox>> ranks(static_cast<std::size_t>(timeline.rank_count));
  // The first action of a pair while its second action is not read yet.
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
    case ActionKind::wait_send_forward:
    case ActionKind::wait_send_backward:
      return TimelineRow::send;
    case ActionKind::recv_forward:
    case ActionKind::recv_backward:
      return TimelineRow::receive;
    case ActionKind::unshard:
    case ActionKind::reshard:
    case ActionKind::reduce_grad:
    case ActionKind::wait_reduce_grad:
    case ActionKind::offload:
    case ActionKind::reload:
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

// Merges boxes that are only one or two pixels wide, so that a picture of a million actions remains small. A
// merged rectangle starts at least `least_ns` after the previous rectangle, or directly after a wide one. So
// a row has at most 2 * makespan / least_ns + 2 rectangles. If all rows together exceed the budget, least_ns
// is doubled.

namespace {

/// Returns a drawn box that contains only this compute box. Its times by kind are computed only if another
/// box is merged into it.
DrawnBox drawn(const ComputeBox& box) { return {box, box, 1, {}, box.start_ns, box.end_ns}; }

/// Adds a time to the entry of an action kind in `shares`. The list contains each kind once, in the order
/// of the enum.
void add_share(std::vector<KindShare>& shares, ActionKind kind, Ns time_ns) {
  auto place = std::ranges::find_if(shares, [&](const KindShare& share) { return share.kind >= kind; });
  if (place == shares.end() || place->kind != kind) place = shares.insert(place, {kind, 0});
  place->time_ns += time_ns;
}

/// Adds the time of a box to the times by kind of the drawn box `group`. If the box is an overlapped pair,
/// each action gets half of the time.
void add_shares(DrawnBox& group, const ComputeBox& box) {
  const Ns second_ns = box.partner ? box.duration_ns() / 2 : 0;
  add_share(group.shares, box.action.kind, box.duration_ns() - second_ns);
  if (box.partner) add_share(group.shares, box.partner->kind, second_ns);
}

/// Merges `box` into the drawn box `group`, which is directly before it in the row.
void join(DrawnBox& group, const ComputeBox& box) {
  if (!group.merged()) add_shares(group, group.shown);
  add_shares(group, box);
  group.last = box;
  group.end_ns = std::max(group.end_ns, box.end_ns);
  ++group.count;
}

/// Returns the number of XML elements that draw a box. A single action needs a rectangle and a tooltip, and
/// also a number if the box is wide. A pair needs two rectangles and two tooltips. A merged box needs a
/// group, a tooltip, a rectangle and a hatching.
std::size_t elements_of(const DrawnBox& box, Ns wide_ns) {
  if (box.merged()) return 4;
  const std::size_t leaves = box.shown.partner ? 2 : 1;
  return leaves * (box.end_ns - box.start_ns >= wide_ns ? 3 : 2);
}

/// The number of XML elements that draw a STEP as a vertical line: the line and its tooltip.
constexpr std::size_t kElementsPerStep = 2;

std::size_t elements_of(const DrawnRow& row, Ns wide_ns) {
  std::size_t elements = kElementsPerStep * row.steps.size();
  for (const DrawnBox& box : row.boxes) elements += elements_of(box, wide_ns);
  return elements;
}

/// The boxes of a row that take time, and the STEPs that are drawn as vertical lines. A short STEP that takes
/// time is in both lists.
struct SplitRow {
  std::vector<ComputeBox> boxes;
  std::vector<ComputeBox> steps;
};

SplitRow split(const std::vector<ComputeBox>& boxes, Ns step_ns) {
  SplitRow row;
  for (const ComputeBox& box : boxes) {
    if (box.duration_ns() > 0) row.boxes.push_back(box);
    // A short STEP also gets a line over its box, because an update of the weights must be visible.
    if (box.action.kind == ActionKind::step && box.duration_ns() < step_ns) row.steps.push_back(box);
  }
  return row;
}

/// Returns a text with the times of a box, such as "12.000 ms to 13.000 ms (1.000 ms)". If start and end
/// are equal, it is "at 12.000 ms".
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
  // True if further narrow boxes can be merged into the last rectangle.
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
    // The loop always ends. At the latest, it ends when each row is one rectangle, or before `least` would
    // overflow 64 bits.
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

// Writes the elements of a timeline, with positions in pixels. A box has a fill, a tooltip, and its number if
// it is wide enough. A merged box is hatched and has the mean colour of its actions, weighted by time. The
// group of the numbers comes after the boxes. SVG draws later elements on top, so no box covers a number.

namespace {

// In narrower boxes a white outline would hide the colour.
constexpr double kLeastOutlinedWidth = 4;
constexpr std::string_view kNoOutline = " stroke=\"none\"";
// A white border around the digits on a hatched box. It separates the digits from the lines.
constexpr std::string_view kHalo = " stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\"";
// The width of a digit in pixels, in a font of 11 pixels.
constexpr double kDigitWidth = 6.6;
constexpr double kMarkWidth = 2;
// The largest share of the free space that a mark may cover.
constexpr double kMarkShare = 0.25;

/// Returns the XML attributes for the position and size of a rectangle. Left and right edges are rounded by
/// the same rule, so that adjacent boxes have no gap.
std::string place_text(const Rectangle& at) {
  const auto rounded = [](double pixels) { return std::round(pixels * 100) / 100; };
  const double x = rounded(at.x);
  return fmt::format("x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"", x, at.y,
                     rounded(at.x + at.width) - x, at.height);
}

/// Returns the rectangle as commands of an SVG path, with a precision of a tenth of a pixel.
std::string path_of(const Rectangle& at) {
  const auto rounded = [](double pixels) { return std::round(pixels * 10) / 10; };
  const double x = rounded(at.x);
  const double width = rounded(rounded(at.x + at.width) - x);
  return fmt::format("M{} {}h{}v{}h{}z", x, rounded(at.y), width, rounded(at.height), -width);
}

/// Returns true if a merged box at `at` can be drawn as one shape with the merged box `before`. Both boxes
/// must touch in one row and have nearly the same colour.
bool can_join(const std::pair<Colour, Rectangle>& before, Colour fill, const Rectangle& at) {
  constexpr int kNearly = 24;
  constexpr double kMostGap = 0.5;
  const auto& [colour, place] = before;
  const int difference = std::abs(colour.red - fill.red) + std::abs(colour.green - fill.green) +
                         std::abs(colour.blue - fill.blue);
  return difference <= kNearly && place.y == at.y && std::abs(place.x + place.width - at.x) < kMostGap;
}

}  // namespace

double label_width(std::size_t digits) { return 5 + kDigitWidth * static_cast<double>(digits); }

double paleness_of(const Action& action, const std::vector<std::int32_t>& stages) {
  if (stages.size() < 2 || action.kind == ActionKind::step) return 0;
  const auto place = std::lower_bound(stages.begin(), stages.end(), action.stage) - stages.begin();
  return kPalest * static_cast<double>(place) / static_cast<double>(stages.size() - 1);
}

Colour mixed_colour(const std::vector<KindShare>& shares) {
  double red = 0;
  double green = 0;
  double blue = 0;
  double total = 0;
  for (const KindShare& share : shares) {
    const Colour colour = colour_of(share.kind);
    const auto weight = static_cast<double>(share.time_ns);
    red += weight * colour.red;
    green += weight * colour.green;
    blue += weight * colour.blue;
    total += weight;
  }
  if (!(total > 0)) return {};
  const auto part = [&](double sum) { return static_cast<std::uint8_t>(std::lround(sum / total)); };
  return {part(red), part(green), part(blue)};
}

std::string box_patterns_svg() {
  return fmt::format(
      "<pattern id=\"{}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"1.6\" height=\"5\" fill=\"#3b6fb6\"/></pattern>"
      "<pattern id=\"{}\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"1.2\" height=\"4\" fill=\"#ffffff\" "
      "fill-opacity=\"0.6\"/></pattern>",
      kRecomputePattern, kSeveralPattern);
}

void BoxText::add_leaf(const Action& action, Colour fill, const Rectangle& at, std::string_view tooltip) {
  const std::string label = has_microbatch(action.kind) ? std::to_string(action.microbatch) : "";
  add_rectangle(fill, at, "", tooltip);
  if (action.kind == ActionKind::recompute && tooltips_) add_pattern(kRecomputePattern, at);
  if (label.empty() || at.width < label_width(label.size())) return;
  const std::string_view halo = action.kind == ActionKind::recompute ? kHalo : "";
  fmt::format_to(std::back_inserter(labels_), "<text x=\"{:.2f}\" y=\"{:.2f}\" fill=\"{}\"{}>{}</text>\n",
                 at.x + at.width / 2, at.y + at.height / 2 + 4, to_hex(text_colour_on(fill)), halo, label);
}

void BoxText::add_merged(Colour fill, const Rectangle& at, std::string_view tooltip) {
  if (!tooltips_) {
    if (joined_ && can_join(*joined_, fill, at)) {
      joined_->second.width = at.x + at.width - joined_->second.x;
      return;
    }
    if (joined_) add_path(joined_->first, joined_->second);
    joined_.emplace(fill, at);
    return;
  }
  fmt::format_to(std::back_inserter(boxes_), "<g shape-rendering=\"crispEdges\"><title>{}</title>",
                 xml_escaped(tooltip));
  add_rectangle(fill, at, kNoOutline, "");
  add_pattern(kSeveralPattern, at);
  boxes_ += "</g>\n";
}

void BoxText::add_bar(Colour fill, const Rectangle& at, std::string_view tooltip) {
  add_rectangle(fill, at, " fill-opacity=\"0.8\"", tooltip);
}

void BoxText::add_mark(Colour colour, const Rectangle& at, double room, std::string_view tooltip) {
  const double width = kMarkShare * room;
  const double drawn = std::min(width, kMarkWidth);
  if (!tooltips_) {
    add_path(colour, {at.x - drawn / 2, at.y, drawn, at.height});
    return;
  }
  fmt::format_to(std::back_inserter(boxes_),
                 "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.2f}\" y2=\"{2:.2f}\" stroke=\"{3}\" "
                 "stroke-width=\"{4:.3g}\"><title>{5}</title></line>\n",
                 at.x, at.y, at.y + at.height, to_hex(colour), drawn, xml_escaped(tooltip));
}

std::string BoxText::boxes() const {
  std::string svg = boxes_;
  const auto add = [&](const std::string& fill, const std::string& path) {
    svg += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", fill, path);
  };
  for (const auto& [fill, path] : paths_) add(fill, path);
  if (joined_) add(to_hex(joined_->first), path_of(joined_->second));
  return svg;
}

void BoxText::add_path(Colour fill, const Rectangle& at) { paths_[to_hex(fill)] += path_of(at); }

void BoxText::add_rectangle(Colour fill, const Rectangle& at, std::string_view attributes,
                            std::string_view tooltip) {
  if (!tooltips_) {
    add_path(fill, at);
    return;
  }
  fmt::format_to(std::back_inserter(boxes_), "<rect {} fill=\"{}\"{}", place_text(at), to_hex(fill),
                 attributes);
  // The group of the boxes gives each box a white outline, which would hide the colour of a narrow box.
  if (at.width < kLeastOutlinedWidth && attributes != kNoOutline) boxes_ += kNoOutline;
  if (tooltip.empty()) {
    boxes_ += "/>";
  } else {
    fmt::format_to(std::back_inserter(boxes_), "><title>{}</title></rect>\n", xml_escaped(tooltip));
  }
}

void BoxText::add_pattern(std::string_view pattern, const Rectangle& at) {
  fmt::format_to(std::back_inserter(boxes_),
                 "<rect {} fill=\"url(#{})\" stroke=\"none\" pointer-events=\"none\"/>", place_text(at),
                 pattern);
}

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
