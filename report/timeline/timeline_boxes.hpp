#pragma once
// The rectangles of one rank's row in a picture of a timeline, few enough to draw. Used by timeline_svg.hpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_rows.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// How much time a merged box gives to one kind of action.
struct KindShare {
  ActionKind kind = ActionKind::forward;
  Ns time_ns = 0;
};

/// One compute box, or several narrow ones beside each other.
struct DrawnBox {
  ComputeBox shown;               ///< the box; of a merged one: its first
  ComputeBox last;                ///< of a merged one: its last box
  std::size_t count = 1;          ///< how many boxes it stands for
  std::vector<KindShare> shares;  ///< of a merged one: by kind, in the order of the enum
  Ns start_ns = 0;
  Ns end_ns = 0;

  bool merged() const { return count > 1; }
};

/// One rank's row. The steps are drawn over the boxes, which would hide them where they take no time.
struct DrawnRow {
  std::vector<DrawnBox> boxes;
  std::vector<DrawnBox> steps;  ///< optimizer steps too short for a box of their own, one mark each
};

/// The boxes of a row, where each box that is shorter than `least_ns` is joined with its followers that are
/// shorter too and start less than `least_ns` after it.
std::vector<DrawnBox> merge_narrow(const std::vector<ComputeBox>& boxes, Ns least_ns);

/// What a picture may cost: boxes from `wide_ns` on carry a number, steps shorter than `step_ns` are marks.
struct DrawingBudget {
  Ns least_ns = 1;
  Ns wide_ns = 1;
  Ns step_ns = 1;
  std::size_t most_elements = 50'000;
};

/// merge_narrow for the boxes and for the steps of all ranks; `least_ns` is doubled until the XML elements
/// are at most `most_elements` (or one box a rank is left).
std::vector<DrawnRow> drawn_rows(const std::vector<std::vector<ComputeBox>>& ranks,
                                 const DrawingBudget& budget);

/// "0F3, 12.000 ms to 13.000 ms (1.000 ms), weight version 2" or "0F3 to 0B7, 12 actions, ...".
std::string tooltip_of(const DrawnBox& box);

/// The tooltip of a transfer or collective.
std::string tooltip_of(const Span& span);

}  // namespace penstock
