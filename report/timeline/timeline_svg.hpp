#pragma once
// Draws a timeline as an SVG picture in the style of PipeDream's figures. Each worker is a row. Forward
// passes are blue, backward passes green, and idle time is grey. The microbatch number is inside the box.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"

namespace penstock {

/// The options of a timeline picture.
struct TimelineSvgOptions {
  /// The title above the picture. If it is empty, there is no title.
  std::string title{};
  /// The width of the whole picture in pixels. Values below 200 count as 200.
  std::int32_t width = 1200;
  /// True to draw sends, receives and collectives as thin bars under each row.
  bool communication = false;
  /// The width in pixels below which boxes are merged. If it is 0, boxes are merged only if the picture would
  /// exceed `most_elements`.
  double least_pixels = 0.8;
  /// The largest number of XML elements for all boxes and bars together.
  std::size_t most_elements = 50'000;

  // The next fields are for pages that show several timelines, such as the pages of compare_html.cpp.
  /// The names of the rows. If the list is empty, the names are "rank 0", "rank 1", ...
  std::vector<std::string> row_names{};
  /// The number of rows in each group. The rows of a group are drawn close together.
  std::int32_t rows_in_group = 1;
  /// The picture's id. It must differ between the pictures of one page.
  std::string id{};
  /// A function that returns extra text for the tooltip of a box. If it is null, tooltips have no extra text.
  std::function<std::string(std::size_t row, const ComputeBox& box)> remark{};
};

/// Returns the picture as a complete <svg> element. A box has a tooltip (action, start, end, weight version)
/// and, if there is room, the microbatch number. The stages of one rank have different shades. The two
/// actions of an overlapped pair share a box, with the first action on top. Merged boxes are hatched, and
/// their colour mixes the colours of their actions. Optimizer steps that take no time are dark lines over the
/// boxes. The data-* attributes are for the zoom script of html_page.hpp.
std::string timeline_to_svg(const Timeline& timeline, const TimelineSvgOptions& options = {});

}  // namespace penstock
