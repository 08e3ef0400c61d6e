// Writes the elements of a timeline, with times already turned into pixels. A box has a fill, a tooltip and,
// if there is room, its number. A merged box (timeline_boxes.cpp) is hatched and has the mean colour of its
// actions, weighted by time. Marks keep their width at any zoom. Numbers are collected apart from boxes,
// because a zoom must not stretch them. Tested by timeline_svg_test.cpp.

#include "report/timeline/box_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/palette.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

// in narrower boxes a white outline would hide the colour
constexpr double kLeastOutlinedWidth = 4;
constexpr std::string_view kNoOutline = " stroke=\"none\"";
// A halo around digits on a hatched box, so that the lines do not cross them.
constexpr std::string_view kHalo = " stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\"";
// in pixels, for a font of 11 pixels; the page's script uses the same number
constexpr double kDigitWidth = 6.6;
constexpr double kMarkWidth = 2;
// the share of the room that a mark may cover
constexpr double kMarkShare = 0.25;

/// Returns the attributes of a rectangle's position. Left and right edges are rounded in the same manner, so
/// that no gap appears between a box and one that follows it at once.
std::string place_text(const Rectangle& at) {
  const auto rounded = [](double pixels) { return std::round(pixels * 100) / 100; };
  const double x = rounded(at.x);
  return fmt::format("x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"", x, at.y,
                     rounded(at.x + at.width) - x, at.height);
}

}  // namespace

double label_width(std::size_t digits) { return 5 + kDigitWidth * static_cast<double>(digits); }

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
  add_rectangle(fill, at, label.empty() ? "" : fmt::format(" data-n=\"{}\"", label), tooltip);
  if (action.kind == ActionKind::recompute) add_pattern(kRecomputePattern, at);
  if (label.empty() || at.width < label_width(label.size())) return;
  const std::string_view halo = action.kind == ActionKind::recompute ? kHalo : "";
  fmt::format_to(std::back_inserter(labels_), "<text x=\"{:.2f}\" y=\"{:.2f}\" fill=\"{}\"{}>{}</text>\n",
                 at.x + at.width / 2, at.y + at.height / 2 + 4, to_hex(text_colour_on(fill)), halo, label);
}

void BoxText::add_merged(Colour fill, const Rectangle& at, std::string_view tooltip) {
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
  // data-width lets the script widen the mark when a zoom makes room.
  const std::string narrow = width < kMarkWidth ? fmt::format(" data-width=\"{:.3f}\"", width) : "";
  fmt::format_to(
      std::back_inserter(boxes_),
      "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.2f}\" y2=\"{2:.2f}\" stroke=\"{3}\" "
      "stroke-width=\"{4:.3g}\"{5} vector-effect=\"non-scaling-stroke\"><title>{6}</title></line>\n",
      at.x, at.y, at.y + at.height, to_hex(colour), std::min(width, kMarkWidth), narrow,
      xml_escaped(tooltip));
}

void BoxText::add_rectangle(Colour fill, const Rectangle& at, std::string_view attributes,
                            std::string_view tooltip) {
  fmt::format_to(std::back_inserter(boxes_), "<rect {} fill=\"{}\"{}", place_text(at), to_hex(fill),
                 attributes);
  // All boxes inherit a white outline from their group.
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

}  // namespace penstock
