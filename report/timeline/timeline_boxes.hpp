#pragma once
// Computes the rectangles that a timeline picture draws for each rank. Narrow neighbours are merged, so that
// there are few rectangles. timeline_svg.hpp uses it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_rows.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The time that actions of one kind take within a merged box.
struct KindShare {
  ActionKind kind = ActionKind::forward;
  Ns time_ns = 0;
};

/// A drawn rectangle. It represents one compute box, or several narrow neighbours merged.
struct DrawnBox {
  /// The box that is drawn. In a merged rectangle it is the first box.
  ComputeBox shown;
  /// The last box of a merged rectangle.
  ComputeBox last;
  /// The number of boxes that the rectangle represents.
  std::size_t count = 1;
  /// The times of a merged rectangle by action kind, in the order of the enum. It is empty for a single box.
  std::vector<KindShare> shares;
  Ns start_ns = 0;
  Ns end_ns = 0;

  bool merged() const { return count > 1; }
};

/// The drawn row of one rank. Steps are drawn over the boxes, because boxes would hide steps that take no
/// time.
struct DrawnRow {
  std::vector<DrawnBox> boxes;
  /// Optimizer steps that are too short for a box. Each one is drawn as a vertical line.
  std::vector<DrawnBox> steps;
};

/// Returns the rectangles of a row. A box shorter than `least_ns` begins a merged rectangle. The following
/// boxes join it if they are also shorter and start less than `least_ns` after it.
std::vector<DrawnBox> merge_narrow(const std::vector<ComputeBox>& boxes, Ns least_ns);

/// The limits that decide how much of a timeline is drawn.
struct DrawingBudget {
  /// The shortest box that gets a rectangle of its own.
  Ns least_ns = 1;
  /// The shortest box that has room for a number.
  Ns wide_ns = 1;
  /// The time below which an optimizer step is drawn as a vertical line.
  Ns step_ns = 1;
  /// The largest number of XML elements in the picture.
  std::size_t most_elements = 50'000;
};

/// Returns the drawn rows of all ranks. It doubles `least_ns` until the picture has at most `most_elements`
/// XML elements, or until each row is one rectangle.
std::vector<DrawnRow> drawn_rows(const std::vector<std::vector<ComputeBox>>& ranks,
                                 const DrawingBudget& budget);

/// Returns the tooltip of a rectangle, such as "0F3, 12.000 ms to 13.000 ms (1.000 ms), weight version 2".
/// For a merged rectangle it is like "0F3 to 0B7, 12 actions, ...".
std::string tooltip_of(const DrawnBox& box);

/// Returns the tooltip of a transfer or a collective.
std::string tooltip_of(const Span& span);

}  // namespace penstock
