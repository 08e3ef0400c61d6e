#pragma once
// A chart as an SVG picture: curves and stacked bands over axes. The HTML pages use it for memory and sweeps;
// the code here knows nothing of schedules.

#include <cstdint>
#include <string>
#include <vector>

#include "report/print/palette.hpp"

namespace penstock {

/// A point of a curve.
struct ChartPoint {
  double x = 0;
  double y = 0;
  /// True if the dot at the point is drawn as a ring.
  bool hollow = false;
};

/// A curve of straight lines between points. Points that are not finite are left out; the line joins their
/// neighbours.
struct ChartCurve {
  /// The name in the legend; an empty label has no entry.
  std::string label{};
  Colour colour{};
  bool dashed = false;
  bool dots = false;
  std::vector<ChartPoint> points{};
};

/// A step of a band: the area between `low` and `high` from `x` to the x of the next step.
struct ChartStep {
  double x = 0;
  double low = 0;
  double high = 0;
};
/// A band of a stack.
struct ChartBand {
  std::string label;
  Colour colour{};
  std::vector<ChartStep> steps;
  /// The x at which the last step ends.
  double end_x = 0;
};

/// The unit in which the numbers of an axis are written.
enum class AxisUnit : std::uint8_t { plain, percent, bytes, nanoseconds };
enum class AxisScale : std::uint8_t { linear, log2 };

/// The data of one picture.
struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  AxisUnit x_unit = AxisUnit::plain;
  AxisUnit y_unit = AxisUnit::plain;
  AxisScale x_scale = AxisScale::linear;  ///< scale of the x axis; log2 requires x > 0
  std::int32_t width = 560;
  std::int32_t height = 300;
  /// A value that the y axis reaches at least; the axis begins at 0.
  double least_top = 0;
  std::vector<ChartBand> bands;
  std::vector<ChartCurve> curves;
};

/// Returns the picture as a complete <svg> element.
std::string chart_to_svg(const Chart& chart);

}  // namespace penstock
