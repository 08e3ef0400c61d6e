#pragma once
// The rectangles of one rank's row in a picture of a timeline, merged so that there are few enough to draw.
// timeline_svg.hpp uses them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_rows.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The time that one kind of action has in a merged box.
struct KindShare {
  ActionKind kind = ActionKind::forward;
  Ns time_ns = 0;
};

/// A rectangle of a picture: one compute box, or several narrow neighbours merged.
struct DrawnBox {
  /// The box; if merged, the first.
  ComputeBox shown;
  /// The last box of a merged rectangle.
  ComputeBox last;
  /// The number of boxes.
  std::size_t count = 1;
  /// The times by kind, in the order of the enum, of a merged rectangle.
  std::vector<KindShare> shares;
  Ns start_ns = 0;
  Ns end_ns = 0;

  bool merged() const { return count > 1; }
};

/// One rank's row. Steps are drawn over the boxes, because boxes would hide steps that take no time.
struct DrawnRow {
  std::vector<DrawnBox> boxes;
  /// Optimizer steps that are too short for a box; each is a mark.
  std::vector<DrawnBox> steps;
};

/// Returns the rectangles of a row. A box shorter than `least_ns` is merged with each following box that is
/// also shorter and starts less than `least_ns` after the first.
std::vector<DrawnBox> merge_narrow(const std::vector<ComputeBox>& boxes, Ns least_ns);

/// The limits of a picture.
struct DrawingBudget {
  /// The shortest time that gets a rectangle of its own.
  Ns least_ns = 1;
  /// The shortest time of a box that carries a number.
  Ns wide_ns = 1;
  /// The time below which an optimizer step is a mark.
  Ns step_ns = 1;
  /// The largest number of XML elements.
  std::size_t most_elements = 50'000;
};

/// Returns the rows of all ranks, with boxes and steps merged by merge_narrow(). `least_ns` is doubled until
/// there are at most `most_elements` XML elements or one box for each rank.
std::vector<DrawnRow> drawn_rows(const std::vector<std::vector<ComputeBox>>& ranks,
                                 const DrawingBudget& budget);

/// Returns a tooltip such as "0F3, 12.000 ms to 13.000 ms (1.000 ms), weight version 2" or "0F3 to 0B7, 12
/// actions, ...".
std::string tooltip_of(const DrawnBox& box);

/// Returns the tooltip of a transfer or collective.
std::string tooltip_of(const Span& span);

}  // namespace penstock
