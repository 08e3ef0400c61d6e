#pragma once
// Draws the legend of an SVG picture: coloured squares with words. The legend has as many lines as the words
// need. timeline_svg.hpp uses it.

#include <string>
#include <string_view>
#include <vector>

#include "report/print/palette.hpp"

namespace penstock {

/// An entry of the legend: a coloured square and its text.
struct LegendEntry {
  std::string text;
  Colour fill{};
  /// The name of the pattern that is drawn over the square. It is empty if there is no pattern.
  std::string_view pattern{};
};

/// The area in which the legend is drawn, in pixels.
struct LegendPlace {
  double left = 0;
  double top = 0;
  double right = 0;
};

/// Returns the height of the legend in pixels, if its lines lie between `left` and `right`.
double legend_height(const std::vector<LegendEntry>& entries, const LegendPlace& place);

/// Returns the legend as a <g> element.
std::string legend_svg(const std::vector<LegendEntry>& entries, const LegendPlace& place);

}  // namespace penstock
