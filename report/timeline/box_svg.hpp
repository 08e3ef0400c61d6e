#pragma once
// The SVG text of a timeline's boxes, their marks and their numbers. timeline_svg.hpp uses it.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/palette.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A rectangle in pixels.
struct Rectangle {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// Returns the width that a box needs to show a number of `digits` digits.
double label_width(std::size_t digits);

/// Returns the colour of a merged box: the colours of its kinds, weighted by their share of its time.
Colour mixed_colour(const std::vector<KindShare>& shares);

/// The names of the patterns that are drawn over the boxes of recomputations and over merged boxes.
inline constexpr std::string_view kRecomputePattern = "penstock-hatch";
inline constexpr std::string_view kSeveralPattern = "penstock-several";
/// Returns the definitions of these patterns for the <defs> of the picture.
std::string box_patterns_svg();

/// A writer that collects the boxes of a picture and the numbers in them.
class BoxText {
 public:
  /// Adds the box of one action, with its microbatch if there is room.
  void add_leaf(const Action& action, Colour fill, const Rectangle& at, std::string_view tooltip);
  /// Adds a box that stands for several actions.
  void add_merged(Colour fill, const Rectangle& at, std::string_view tooltip);
  /// Adds a thin bar.
  void add_bar(Colour fill, const Rectangle& at, std::string_view tooltip);
  /// Adds an upright line that keeps its width at any zoom. It is narrower if `room`, the distance to the
  /// next line, is small.
  void add_mark(Colour colour, const Rectangle& at, double room, std::string_view tooltip);

  const std::string& boxes() const { return boxes_; }
  const std::string& labels() const { return labels_; }

 private:
  void add_rectangle(Colour fill, const Rectangle& at, std::string_view attributes, std::string_view tooltip);
  void add_pattern(std::string_view pattern, const Rectangle& at);

  std::string boxes_;
  std::string labels_;
};

}  // namespace penstock
