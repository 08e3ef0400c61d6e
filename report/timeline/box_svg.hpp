#pragma once
// The SVG text of a timeline's boxes, of the marks on them and of the numbers in them. Used by
// timeline_svg.hpp.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/palette.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// In pixels.
struct Rectangle {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// How wide a box must be for a number of so many digits.
double label_width(std::size_t digits);

/// What a merged box is filled with: the colours of its kinds, mixed as their share of the time.
Colour mixed_colour(const std::vector<KindShare>& shares);

/// The patterns that boxes of recomputation and merged boxes have over their colour, as a legend names them.
inline constexpr std::string_view kRecomputePattern = "penstock-hatch";
inline constexpr std::string_view kSeveralPattern = "penstock-several";
/// Their definitions, for the <defs> of the picture.
std::string box_patterns_svg();

/// Grows box by box.
class BoxText {
 public:
  /// A box with its microbatch where there is room.
  void add_leaf(const Action& action, Colour fill, const Rectangle& at, std::string_view tooltip);
  /// A box that stands for several actions.
  void add_merged(Colour fill, const Rectangle& at, std::string_view tooltip);
  /// A thin bar.
  void add_bar(Colour fill, const Rectangle& at, std::string_view tooltip);
  /// An upright line, which is as wide at any zoom; narrower where there is less `room` to the next one.
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
