#pragma once
// The legend of an SVG picture: coloured squares with words, on as many lines as the width needs.
// timeline_svg.hpp uses it.

#include <string>
#include <string_view>
#include <vector>

#include "report/print/palette.hpp"

namespace penstock {

/// An entry of the legend.
struct LegendEntry {
  std::string text;
  Colour fill{};
  /// The name of a pattern of the picture that is drawn over the fill; empty for none.
  std::string_view pattern{};
};

/// The space of the legend, in pixels.
struct LegendPlace {
  double left = 0;
  double top = 0;
  double right = 0;
};

/// Returns the height of the lines that the entries need between `left` and `right`.
double legend_height(const std::vector<LegendEntry>& entries, const LegendPlace& place);

/// Returns the legend as a <g> element.
std::string legend_svg(const std::vector<LegendEntry>& entries, const LegendPlace& place);

}  // namespace penstock
