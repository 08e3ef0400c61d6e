#pragma once
// A small chart as an SVG picture: curves and stacked bands over axes with ticks at 1, 2 and 5. Used by
// the HTML pages; it knows nothing of schedules.

#include <cstdint>
#include <string>
#include <vector>

#include "report/print/palette.hpp"

namespace penstock {

struct ChartPoint {
  double x = 0;
  double y = 0;
  bool hollow = false;  ///< its dot is a ring
};

/// Straight lines between points. Points that are not finite break nothing: they are left out.
struct ChartCurve {
  std::string label{};  ///< in the legend; empty: not there
  Colour colour{};
  bool dashed = false;
  bool dots = false;
  std::vector<ChartPoint> points{};
};

/// What is filled between `low` and `high` from `x` until the next step.
struct ChartStep {
  double x = 0;
  double low = 0;
  double high = 0;
};
struct ChartBand {
  std::string label;
  Colour colour{};
  std::vector<ChartStep> steps;
  double end_x = 0;  ///< where the last step ends
};

/// How the values of an axis are read.
enum class AxisUnit : std::uint8_t { plain, percent, bytes, nanoseconds };
enum class AxisScale : std::uint8_t { linear, log2 };

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  AxisUnit x_unit = AxisUnit::plain;
  AxisUnit y_unit = AxisUnit::plain;
  AxisScale x_scale = AxisScale::linear;  ///< log2 requires x > 0
  std::int32_t width = 560;
  std::int32_t height = 300;
  double least_top = 0;  ///< the y axis reaches at least here; it begins at 0
  std::vector<ChartBand> bands;
  std::vector<ChartCurve> curves;
};

/// A complete <svg> element.
std::string chart_to_svg(const Chart& chart);

}  // namespace penstock
