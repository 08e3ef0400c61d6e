#pragma once
// Writes the boxes of a timeline, with their marks and numbers, as SVG text. timeline_svg.hpp uses it.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/palette.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A rectangle of the picture, in pixels.
struct Rectangle {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// Returns the width in pixels of a box that has room for a number of `digits` digits.
double label_width(std::size_t digits);

/// Returns the colour of a merged box. It mixes the colours of the action kinds, weighted by their time in
/// the box.
Colour mixed_colour(const std::vector<KindShare>& shares);

/// The names of the hatching patterns. The first is drawn over recomputations and the second over merged
/// boxes.
inline constexpr std::string_view kRecomputePattern = "penstock-hatch";
inline constexpr std::string_view kSeveralPattern = "penstock-several";
/// Returns the SVG definitions of both patterns, for the <defs> of the picture.
std::string box_patterns_svg();

/// A writer that collects the SVG text of a picture's boxes and of the numbers in them.
class BoxText {
 public:
  /// Adds the box of one action, with its microbatch number if there is room.
  void add_leaf(const Action& action, Colour fill, const Rectangle& at, std::string_view tooltip);
  /// Adds a merged box, which represents several actions.
  void add_merged(Colour fill, const Rectangle& at, std::string_view tooltip);
  /// Adds a thin bar for a transfer or a collective.
  void add_bar(Colour fill, const Rectangle& at, std::string_view tooltip);
  /// Adds a vertical line that has the same width at every zoom. The line is narrower if `room`, the distance
  /// to the next line in pixels, is small.
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
