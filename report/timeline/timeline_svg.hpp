#pragma once
// A timeline as an SVG picture in the style of PipeDream's figures: a row a worker, blue forwards, green
// backwards with the microbatch inside, grey where a worker idles.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_rows.hpp"

namespace penstock {

struct TimelineSvgOptions {
  std::string title{};         ///< above the picture; empty: none
  std::int32_t width = 1200;   ///< of the whole picture in pixels; at least 200 are used
  bool communication = false;  ///< thin bars under each row: sends, receives, collectives
  double least_pixels = 0.8;   ///< narrower boxes are merged; 0: only as far as most_elements needs it
  std::size_t most_elements = 50'000;  ///< XML elements of all boxes and bars together

  // For pictures of more than one timeline; compare_html.cpp has a row a rank of each.
  std::vector<std::string> row_names{};  ///< beside the rows; empty: "rank 0", "rank 1", ...
  std::int32_t rows_in_group = 1;        ///< so many rows stand close together
  std::string id{};                      ///< different for each picture of one page
  /// What a box's tooltip says beside its times; null: nothing.
  std::function<std::string(std::size_t row, const ComputeBox& box)> remark{};
};

/// A complete <svg> element. Boxes carry a tooltip (action, start, end, weight version) and, where there is
/// room, the microbatch's number. Stages of one rank have different shades. The two leaves of an overlapped
/// pair share a box, the first above the second. Merged boxes are hatched and have the mixed colour of what
/// is in them. Optimizer steps that take no time are dark lines over the boxes. Attributes data-* on the
/// <svg> and the boxes serve the zoom of html_page.hpp.
std::string timeline_to_svg(const Timeline& timeline, const TimelineSvgOptions& options = {});

}  // namespace penstock
