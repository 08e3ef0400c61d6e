#pragma once
// Draws a chart as an SVG picture: curves over two axes. HTML pages use it for sweeps, and timelines use
// its legend. The code here does not depend on schedules.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/palette.hpp"

namespace penstock {

/// A point of a curve.
struct ChartPoint {
  double x = 0;
  double y = 0;
  /// True if the dot at the point is a ring instead of a filled circle.
  bool hollow = false;
  /// The name of the point in the tooltip of its dot. If it is empty, the tooltip shows the name of the
  /// curve.
  std::string name{};
  /// A short text that is drawn beside the dot of the point.
  std::string mark{};
};

/// A curve that joins its points by straight lines. A point that is not finite is left out, and the line
/// joins its neighbours directly.
struct ChartCurve {
  /// The curve's name in the legend. If it is empty, the legend leaves the curve out.
  std::string label{};
  Colour colour{};
  bool dashed = false;
  bool dots = false;
  std::vector<ChartPoint> points{};
};

/// A filled polygon behind the curves, for example a tolerance band around a line.
struct ChartArea {
  /// The name in the legend. If it is empty, the legend leaves the area out.
  std::string label{};
  Colour colour{};
  std::vector<ChartPoint> corners{};  ///< corners in the order of the outline
};

/// The unit of the numbers on an axis.
enum class AxisUnit : std::uint8_t { plain, percent, bytes, nanoseconds };
enum class AxisScale : std::uint8_t { linear, log2 };

/// The data of one chart.
struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  AxisUnit x_unit = AxisUnit::plain;
  AxisUnit y_unit = AxisUnit::plain;
  AxisScale x_scale = AxisScale::linear;  ///< the scale of the x axis; a log2 axis requires x > 0
  /// The scale of the y axis. A linear axis begins at 0. A log2 axis requires y > 0 and begins at the lowest
  /// value.
  AxisScale y_scale = AxisScale::linear;
  std::int32_t width = 560;
  std::int32_t height = 300;
  std::vector<ChartArea> areas;
  std::vector<ChartCurve> curves;
};

/// Returns the picture as a complete <svg> element.
std::string chart_to_svg(const Chart& chart);

// Draws the legend of an SVG picture: coloured squares with words. The legend has as many lines as the words
// need. timeline_svg.cpp uses it.

/// An entry of the legend: a coloured square and its text.
struct LegendEntry {
  std::string text;
  Colour fill{};
  /// The name of the pattern that is drawn over the square. It is empty if there is no pattern.
  std::string_view pattern{};
};

/// The position of the legend in the picture, in pixels.
struct LegendPlace {
  double left = 0;
  double top = 0;
  double right = 0;
};

/// Returns the height in pixels of a legend whose lines must fit between `left` and `right`.
double legend_height(const std::vector<LegendEntry>& entries, const LegendPlace& place);

/// Returns the legend as a <g> element.
std::string legend_svg(const std::vector<LegendEntry>& entries, const LegendPlace& place);

}  // namespace penstock
