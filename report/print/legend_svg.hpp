#pragma once
// The legend of an SVG picture: coloured squares with words, in as many lines as the width needs. Used by
// timeline_svg.hpp.

#include <string>
#include <string_view>
#include <vector>

#include "report/print/palette.hpp"

namespace penstock {

struct LegendEntry {
  std::string text;
  Colour fill{};
  std::string_view pattern{};  ///< over the fill: the name of a pattern in the picture
};

/// Where the legend stands, in pixels.
struct LegendPlace {
  double left = 0;
  double top = 0;
  double right = 0;
};

/// The height of the lines that the entries take between `left` and `right`.
double legend_height(const std::vector<LegendEntry>& entries, const LegendPlace& place);

/// A <g> element.
std::string legend_svg(const std::vector<LegendEntry>& entries, const LegendPlace& place);

}  // namespace penstock
