#pragma once
// A timeline as an SVG picture in the style of PipeDream's figures: a row for each worker, blue forwards and
// green backwards with the microbatch inside, grey where a worker is idle.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_rows.hpp"

namespace penstock {

/// The options of a picture.
struct TimelineSvgOptions {
  /// The title above the picture; empty for none.
  std::string title{};
  /// The width of the whole picture in pixels; values below 200 count as 200.
  std::int32_t width = 1200;
  /// True to draw sends, receives and collectives as thin bars under each row.
  bool communication = false;
  /// The width below which boxes are merged; 0 merges only as far as most_elements needs it.
  double least_pixels = 0.8;
  /// The largest number of XML elements of all boxes and bars together.
  std::size_t most_elements = 50'000;

  // The next fields serve pictures of more than one timeline, such as those of compare_html.cpp.
  /// The names of the rows; if empty, "rank 0", "rank 1", ...
  std::vector<std::string> row_names{};
  /// The number of rows that are drawn close together.
  std::int32_t rows_in_group = 1;
  /// An id that differs between the pictures of one page.
  std::string id{};
  /// A function that returns further text for the tooltip of a box; null adds nothing.
  std::function<std::string(std::size_t row, const ComputeBox& box)> remark{};
};

/// Returns the picture as a complete <svg> element. A box has a tooltip (action, start, end, weight version)
/// and, if there is room, the microbatch's number. The stages of one rank have different shades. The two
/// leaves of an overlapped pair share a box, the first leaf on top. Merged boxes are hatched and have the
/// mixed colour of their actions. Optimizer steps that take no time are dark lines over the boxes. The zoom
/// script of html_page.hpp reads the attributes data-* of the <svg> and the boxes.
std::string timeline_to_svg(const Timeline& timeline, const TimelineSvgOptions& options = {});

}  // namespace penstock
