#pragma once
// Draws a timeline as an SVG picture in the style of PipeDream's figures. Each rank is a row. Forward
// passes are blue, backward passes green, and idle time is grey. The microbatch number is inside the box.
// timeline_text.hpp draws with characters instead.

#include <cstddef>
#include <cstdint>
#include <string>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_window.hpp"

namespace penstock {

/// The options of a timeline picture.
struct TimelineSvgOptions {
  /// The title above the picture. If it is empty, there is no title.
  std::string title{};
  /// The width of the whole picture in pixels. Values below 200 count as 200.
  std::int32_t width = 1200;
  /// True to draw sends, receives and collectives as thin bars under each row.
  bool communication = false;
  /// The width in pixels below which neighbouring boxes are merged. If it is 0, boxes are merged only if
  /// the picture would otherwise exceed `most_elements`.
  double least_pixels = 0.8;
  /// The largest number of XML elements for all boxes and bars together.
  std::size_t most_elements = 50'000;
  /// True to write tooltips and outlines. False to leave them out, and to join neighbouring merged boxes of
  /// nearly the same colour. The picture is then ten times smaller.
  bool tooltips = true;
  /// The part of the run that the picture shows. The tooltip of a cut action still states its whole time.
  TimelineWindow window{};
};

/// Returns the picture as a complete SVG element. A box has a tooltip (action, start, end, weight version)
/// and, if there is room, the microbatch number. The stages of one rank have different shades. The two
/// actions of an overlapped pair share a box, with the first action on top. Merged boxes are hatched, and
/// their colour mixes the colours of their actions. Optimizer steps that take no time are dark lines over the
/// boxes.
std::string timeline_to_svg(const Timeline& timeline, const TimelineSvgOptions& options = {});

}  // namespace penstock
