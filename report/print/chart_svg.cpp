// Draws curves over two axes as an SVG without a script. `Frame` maps values to pixels:
//
//   x -> left + (x - x_low) / (x_high - x_low) * width        (log2(x) for x on a logarithmic axis)
//   y -> top + height * (1 - y / y_high)
//
// Axes and curves use this map. Values that are not finite are left out, because a point at the
// edge of the chart would be wrong. Tested by timeline_svg_test.cpp.

#include "report/print/chart_svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "report/print/palette.hpp"
#include "report/print/units.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

// The space around the plot, in pixels. The title and the name of the y axis are above the plot. The numbers
// of the y axis are left of the plot, and the legend is right of it.
constexpr double kTop = 38;
constexpr double kTickHeight = 24;
constexpr double kXLabelHeight = 22;
constexpr double kLeft = 74;
constexpr double kRight = 14;
constexpr double kLegendWidth = 118;
constexpr double kLegendPitch = 16;
constexpr int kMostYTicks = 6;

/// Converts values to pixels. It knows the place of the plot in the picture, and the values at the edges of
/// the plot.
struct Frame {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
  double x_low = 0;
  double x_high = 1;
  double y_low = 0;
  double y_high = 1;
  AxisScale x_scale = AxisScale::linear;
  AxisScale y_scale = AxisScale::linear;

  double x(double value) const {
    const double at = x_scale == AxisScale::log2 ? std::log2(value) : value;
    // If all points have the same x, they are drawn in the middle.
    return left + (x_high > x_low ? (at - x_low) / (x_high - x_low) : 0.5) * width;
  }
  double y(double value) const {
    const double at = y_scale == AxisScale::log2 ? std::log2(value) : value;
    return top + height * (1 - (y_high > y_low ? (at - y_low) / (y_high - y_low) : 0.5));
  }
  double bottom() const { return top + height; }
};

bool is_drawable(const ChartPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

/// Returns the text of a tick. All ticks have the same unit of time, which is chosen for `last`, the last
/// tick of the axis.
std::string tick_text(double value, AxisUnit unit, double last) {
  switch (unit) {
    case AxisUnit::plain:
      return fmt::format("{:.6g}", value);
    case AxisUnit::percent:
      return fmt::format("{:.6g} %", 100 * value);
    case AxisUnit::bytes:
      return format_bytes_short(std::llround(value));
    case AxisUnit::nanoseconds:
      return format_tick(std::llround(value), std::llround(last));
  }
  return {};
}

/// Returns the ticks of the y axis, from 0 up to the first tick that is not below `highest`.
std::vector<double> y_ticks_of(double highest, AxisUnit unit) {
  switch (unit) {
    case AxisUnit::bytes:
      return byte_ticks(highest, kMostYTicks);
    case AxisUnit::plain:
    case AxisUnit::percent:
    case AxisUnit::nanoseconds:
      return value_ticks(highest, kMostYTicks);
  }
  return {};
}

/// Returns the ticks of a logarithmic axis, whose range is in powers of two. It has at least one tick.
std::vector<double> log_ticks(double low, double high) {
  // The axis has a tick at each power of two. If these were more than ten, it has a tick at every n-th power.
  const int step = std::max(1, static_cast<int>(std::ceil((high - low) / 10)));
  const auto last = static_cast<int>(std::floor(high));
  std::vector<double> ticks;
  for (int power = static_cast<int>(std::ceil(low)); power <= last; power += step)
    ticks.push_back(std::exp2(power));
  // If no power of two is in the frame, the axis still needs one number.
  if (ticks.empty()) ticks.push_back(std::exp2(low));
  return ticks;
}

/// Returns the ticks of the x axis that are inside the frame.
std::vector<double> x_ticks_of(const Frame& frame) {
  if (frame.x_scale == AxisScale::log2) return log_ticks(frame.x_low, frame.x_high);
  std::vector<double> ticks;
  for (const double tick : value_ticks(frame.x_high, static_cast<int>(frame.width / 80) + 1)) {
    if (tick >= frame.x_low && tick <= frame.x_high * (1 + 1e-9)) ticks.push_back(tick);
  }
  return ticks;
}

/// Returns the highest y value of the chart, or 0 for an empty chart. The axis of an empty chart goes up to 1
/// (value_ticks()).
double highest_value(const Chart& chart) {
  double highest = 0;
  for (const ChartCurve& curve : chart.curves) {
    for (const ChartPoint& point : curve.points) {
      if (is_drawable(point)) highest = std::max(highest, point.y);
    }
  }
  return highest;
}

/// The lowest and the highest of some values. If there are no values, `low` is above `high`.
struct ValueRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Returns the range of one coordinate (x or y) over all curves and areas.
ValueRange range_of(const Chart& chart, double ChartPoint::* coordinate) {
  ValueRange range;
  for (const ChartCurve& curve : chart.curves) {
    for (const ChartPoint& point : curve.points) {
      if (is_drawable(point)) range.include(point.*coordinate);
    }
  }
  for (const ChartArea& area : chart.areas) {
    for (const ChartPoint& corner : area.corners) range.include(corner.*coordinate);
  }
  return range;
}

/// Sets the range of the x axis from the first to the last drawn x. On a logarithmic axis the range is in
/// powers of two.
void fit_x(Frame& frame, const Chart& chart) {
  const ValueRange range = range_of(chart, &ChartPoint::x);
  // If there is no point to draw, the axis keeps its default range.
  if (range.low > range.high) return;
  frame.x_low = chart.x_scale == AxisScale::log2 ? std::log2(range.low) : range.low;
  frame.x_high = chart.x_scale == AxisScale::log2 ? std::log2(range.high) : range.high;
}

/// Sets the range of the y axis. The last tick of a linear axis is at least the highest value, so nothing is
/// drawn above the frame.
void fit_y(Frame& frame, const Chart& chart) {
  if (chart.y_scale == AxisScale::linear) {
    frame.y_high = y_ticks_of(highest_value(chart), chart.y_unit).back();
    return;
  }
  const ValueRange range = range_of(chart, &ChartPoint::y);
  if (range.low > range.high) return;
  frame.y_low = std::log2(range.low);
  frame.y_high = std::log2(range.high);
}

bool has_legend(const Chart& chart) {
  const auto labelled = [](const auto& series) { return !series.label.empty(); };
  return std::ranges::any_of(chart.curves, labelled) || std::ranges::any_of(chart.areas, labelled);
}

/// Returns the frame of the plot: its place in the picture, and the values at its edges.
Frame frame_of(const Chart& chart) {
  Frame frame;
  frame.left = kLeft;
  frame.top = kTop;
  frame.width = chart.width - kLeft - kRight - (has_legend(chart) ? kLegendWidth : 0);
  frame.height = chart.height - kTop - kTickHeight - (chart.x_label.empty() ? 0 : kXLabelHeight);
  frame.x_scale = chart.x_scale;
  frame.y_scale = chart.y_scale;
  fit_y(frame, chart);
  fit_x(frame, chart);
  return frame;
}

/// Returns the axes. Each tick of the y axis has a line and a number. Each tick of the x axis has a mark and
/// a number. The x axis also has a name.
std::string axes_svg(const Chart& chart, const Frame& frame) {
  std::string svg;
  const std::vector<double> y_ticks = chart.y_scale == AxisScale::log2
                                          ? log_ticks(frame.y_low, frame.y_high)
                                          : y_ticks_of(highest_value(chart), chart.y_unit);
  for (const double tick : y_ticks) {
    fmt::format_to(std::back_inserter(svg),
                   "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#dddddd\"/>"
                   "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
                   frame.left, frame.left + frame.width, frame.y(tick), frame.left - 6, frame.y(tick) + 4,
                   tick_text(tick, chart.y_unit, y_ticks.back()));
  }
  const std::vector<double> x_ticks = x_ticks_of(frame);
  for (const double tick : x_ticks) {
    fmt::format_to(std::back_inserter(svg),
                   "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#555555\"/>"
                   "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
                   frame.x(tick), frame.bottom(), frame.bottom() + 4, frame.bottom() + 16,
                   tick_text(tick, chart.x_unit, x_ticks.back()));
  }
  fmt::format_to(std::back_inserter(svg),
                 "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#555555\"/>\n"
                 "<text x=\"{3:.1f}\" y=\"{4}\" text-anchor=\"middle\">{5}</text>\n",
                 frame.left, frame.left + frame.width, frame.bottom(), frame.left + frame.width / 2,
                 chart.height - 8, xml_escaped(chart.x_label));
  return svg;
}

/// Returns an area of the chart as a filled polygon.
std::string area_svg(const ChartArea& area, const Frame& frame) {
  std::string points;
  for (const ChartPoint& corner : area.corners)
    fmt::format_to(std::back_inserter(points), "{:.2f},{:.2f} ", frame.x(corner.x), frame.y(corner.y));
  return fmt::format("<polygon fill=\"{}\" points=\"{}\"><title>{}</title></polygon>\n", to_hex(area.colour),
                     points, xml_escaped(area.label));
}

/// A collector of the marks of a chart. It places each mark beside its dot, where it covers no earlier mark.
/// A mark without such a place is left out. The tooltip of its dot still has the name.
class PlacedMarks {
 public:
  explicit PlacedMarks(const Frame& frame) : frame_(frame) {}

  void add(const ChartPoint& point) {
    const double x = frame_.x(point.x);
    const double y = frame_.y(point.y);
    // In the right fifth of the plot, a mark is to the left of its dot. Otherwise the mark would cover the
    // legend.
    const bool is_right = x > frame_.left + 0.8 * frame_.width;
    for (const double above : {4.0, -12.0, 16.0, -24.0}) {
      for (const bool is_left : {is_right, true}) {
        const double width = kMarkCharacter * static_cast<double>(point.mark.size());
        const double left = is_left ? x - kMarkGap - width : x + kMarkGap;
        const Box box{.left = left, .right = left + width, .baseline = y - above};
        if (box.left < frame_.left ||
            std::ranges::any_of(boxes_, [&](const Box& other) { return overlap(box, other); }))
          continue;
        boxes_.push_back(box);
        fmt::format_to(std::back_inserter(svg_), "<text x=\"{:.2f}\" y=\"{:.2f}\"{}>{}</text>\n",
                       is_left ? x - kMarkGap : x + kMarkGap, box.baseline,
                       is_left ? " text-anchor=\"end\"" : "", xml_escaped(point.mark));
        return;
      }
    }
  }

  const std::string& svg() const { return svg_; }

 private:
  static constexpr double kMarkGap = 5;
  static constexpr double kMarkCharacter = 6.2;  // width of a character in a font of 11 pixels
  static constexpr double kMarkHeight = 10;

  struct Box {
    double left = 0;
    double right = 0;
    double baseline = 0;
  };

  static bool overlap(const Box& one, const Box& other) {
    return one.left < other.right && other.left < one.right &&
           std::abs(one.baseline - other.baseline) < kMarkHeight;
  }

  const Frame& frame_;
  std::vector<Box> boxes_;
  std::string svg_;
};

/// Returns a line through the points. Each point has a dot, and the tooltip of the dot shows its values. Adds
/// the marks of the points to `marks`.
std::string curve_svg(const Chart& chart, const ChartCurve& curve, const Frame& frame, PlacedMarks& marks) {
  std::string points;
  std::string dots;
  for (const ChartPoint& point : curve.points) {
    if (!is_drawable(point)) continue;
    fmt::format_to(std::back_inserter(points), "{:.2f},{:.2f} ", frame.x(point.x), frame.y(point.y));
    if (!curve.dots) continue;
    fmt::format_to(
        std::back_inserter(dots),
        "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\" fill=\"{}\" stroke=\"{}\" stroke-width=\"1.5\">"
        "<title>{}, {}: {}</title></circle>\n",
        frame.x(point.x), frame.y(point.y), point.hollow ? "#ffffff" : to_hex(curve.colour),
        to_hex(curve.colour), xml_escaped(point.name.empty() ? curve.label : point.name),
        tick_text(point.x, chart.x_unit, point.x), tick_text(point.y, chart.y_unit, point.y));
    if (!point.mark.empty()) marks.add(point);
  }
  return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{} points=\"{}\"/>\n{}",
                     to_hex(curve.colour), curve.dashed ? "1.4" : "2",
                     curve.dashed ? " stroke-dasharray=\"5 4\"" : "", points, dots);
}

/// Returns the legend on the right side of the plot. It lists the areas, and then the curves.
std::string legend_svg(const Chart& chart, const Frame& frame) {
  std::string svg;
  const double x = frame.left + frame.width + 14;
  double y = frame.top + 6;
  for (const ChartArea& area : chart.areas) {
    if (area.label.empty()) continue;
    fmt::format_to(
        std::back_inserter(svg),
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"10\" fill=\"{}\"/><text x=\"{:.1f}\" "
        "y=\"{:.1f}\">{}</text>\n",
        x, y - 5, to_hex(area.colour), x + 21, y + 4, xml_escaped(area.label));
    y += kLegendPitch;
  }
  for (const ChartCurve& curve : chart.curves) {
    if (curve.label.empty()) continue;
    fmt::format_to(std::back_inserter(svg),
                   "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
                   "stroke-width=\"2\"{4}/><text x=\"{5:.1f}\" y=\"{6:.1f}\">{7}</text>\n",
                   x, x + 16, y, to_hex(curve.colour), curve.dashed ? " stroke-dasharray=\"5 4\"" : "",
                   x + 21, y + 4, xml_escaped(curve.label));
    y += kLegendPitch;
  }
  return svg;
}

/// Returns the height of the picture in pixels. It is larger than the requested height if the legend needs
/// more space.
double height_of(const Chart& chart) {
  const auto labelled = [](const auto& series) { return !series.label.empty(); };
  const auto lines =
      std::ranges::count_if(chart.curves, labelled) + std::ranges::count_if(chart.areas, labelled);
  return std::max<double>(chart.height, kTop + kLegendPitch * static_cast<double>(lines) + 10);
}

}  // namespace

std::string chart_to_svg(const Chart& chart) {
  const Frame frame = frame_of(chart);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"penstock-chart\" viewBox=\"0 0 {0} {1:.0f}\" "
      "width=\"{0}\" "
      "height=\"{1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#222222\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      chart.width, height_of(chart));
  svg += fmt::format("<text x=\"{}\" y=\"14\" font-size=\"12\" font-weight=\"bold\">{}</text>\n", 6,
                     xml_escaped(chart.title));
  svg += fmt::format("<text x=\"{}\" y=\"27\" fill=\"#555555\">{}</text>\n", 6, xml_escaped(chart.y_label));
  for (const ChartArea& area : chart.areas) svg += area_svg(area, frame);
  svg += axes_svg(chart, frame);
  PlacedMarks marks(frame);
  for (const ChartCurve& curve : chart.curves) svg += curve_svg(chart, curve, frame, marks);
  return svg + marks.svg() + legend_svg(chart, frame) + "</svg>\n";
}

// Places legend entries from left to right. If an entry would cross the right edge, it begins a new line.
// Text cannot be measured without a browser, so its width is estimated from the number of characters.
// legend_height() and legend_svg() both use positions_of(), so that they agree.

namespace {

constexpr double kSquare = 12;
constexpr double kLineHeight = 18;
constexpr double kEntryGap = 16;

struct Position {
  double x = 0;
  double y = 0;
};

/// Returns the estimated width of a legend entry in pixels, in a font of 11 pixels.
double width_of(const LegendEntry& entry) {
  constexpr double kCharacterWidth = 5.6;
  return kSquare + 5 + kCharacterWidth * static_cast<double>(entry.text.size());
}

/// Returns the position of each legend entry in the picture.
std::vector<Position> positions_of(const std::vector<LegendEntry>& entries, const LegendPlace& place) {
  std::vector<Position> positions;
  Position next = {place.left, place.top};
  for (const LegendEntry& entry : entries) {
    // An entry that is wider than a line gets a line of its own.
    if (next.x > place.left && next.x + width_of(entry) > place.right)
      next = {place.left, next.y + kLineHeight};
    positions.push_back(next);
    next.x += width_of(entry) + kEntryGap;
  }
  return positions;
}

/// Returns a square of the legend, filled with a colour or with a pattern ("url(#name)").
std::string square(const Position& at, std::string_view fill) {
  return fmt::format("<rect x=\"{0:.2f}\" y=\"{1:.2f}\" width=\"{2}\" height=\"{2}\" fill=\"{3}\"/>", at.x,
                     at.y, kSquare, fill);
}

}  // namespace

double legend_height(const std::vector<LegendEntry>& entries, const LegendPlace& place) {
  if (entries.empty()) return 0;
  return positions_of(entries, place).back().y - place.top + kLineHeight;
}

std::string legend_svg(const std::vector<LegendEntry>& entries, const LegendPlace& place) {
  std::string svg = "<g class=\"legend\">\n";
  const std::vector<Position> positions = positions_of(entries, place);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    svg += square(positions[i], to_hex(entries[i].fill));
    if (!entries[i].pattern.empty()) svg += square(positions[i], fmt::format("url(#{})", entries[i].pattern));
    fmt::format_to(std::back_inserter(svg), "<text x=\"{:.2f}\" y=\"{:.2f}\">{}</text>\n",
                   positions[i].x + kSquare + 5, positions[i].y + 10, xml_escaped(entries[i].text));
  }
  return svg + "</g>\n";
}

}  // namespace penstock
