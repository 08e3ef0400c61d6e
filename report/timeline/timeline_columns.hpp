#pragma once
// Finds the action that each column of a text timeline shows. timeline_boxes.hpp uses it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The properties of a timeline that determine the labels of its boxes.
struct TextLabels {
  /// True if some rank holds several stages. Each label then begins with the stage.
  bool with_stage = false;
  /// The length of the longest label, in characters.
  std::size_t longest = 0;
  /// The duration of the shortest box whose duration is not 0. It is 0 if no box takes time.
  Ns shortest_ns = 0;

  /// Returns a box's label, such as "F3", "2F3" or "0F5;3B2".
  std::string label(const ComputeBox& box) const;
};

/// Returns the properties of the labels for a timeline. `ranks` has the boxes of each rank.
TextLabels labels_of(const std::vector<std::vector<ComputeBox>>& ranks);

/// The scale that maps times to columns of a text line. If `unit_ns` > 0, the scale is exact: every
/// `unit_ns` takes `columns_per_unit` columns.
struct TextScale {
  Ns makespan_ns = 0;
  Ns unit_ns = 0;
  std::int64_t columns_per_unit = 0;
  std::int64_t columns = 0;

  /// Returns the column that belongs to a time. The result may be a fraction.
  double column_of(Ns time_ns) const;
};

/// Returns the scale of a text line with `available` columns. The unit is the greatest common divisor of
/// all times. If each unit can have at least one column, the scale is exact, and each unit gets as many
/// columns as the labels need. Otherwise the makespan is spread over all `available` columns. Requires
/// makespan_ns > 0.
TextScale scale_of(const std::vector<std::vector<ComputeBox>>& ranks, Ns makespan_ns,
                   const TextLabels& labels, std::int64_t available);

/// The owner of an idle column, in which the rank computes nothing. An owner of 0 or more means that the
/// column shows a box: it is the index of this box in the list of the rank's boxes.
inline constexpr std::int32_t kIdleColumn = -1;
/// The owner of a column in which the rank is idle while gradients are reduced.
inline constexpr std::int32_t kReduceColumn = -2;
/// The owner of a column in which the rank is idle while weights are gathered.
inline constexpr std::int32_t kGatherColumn = -3;
/// The owner of a column in which the rank is idle while an activation is reloaded from the host.
inline constexpr std::int32_t kReloadColumn = -4;

/// Returns the owner of each column. If boxes fill at least half of the column, its owner is the box with
/// the largest share. Otherwise, if collectives fill at least half of it, its owner is kReduceColumn or
/// kGatherColumn. In all other cases, it is kIdleColumn.
std::vector<std::int32_t> column_owners(const std::vector<ComputeBox>& boxes,
                                        std::span<const Span> collectives, const TextScale& scale);

/// A run of neighbouring columns that have the same owner.
struct ColumnRun {
  std::int32_t owner = kIdleColumn;
  std::size_t columns = 0;
};
/// Returns the runs of one line. `owners` has the owner of each column.
std::vector<ColumnRun> runs_of(const std::vector<std::int32_t>& owners);

/// Returns true if each box that takes time owns at least one column.
bool shows_every_box(const std::vector<ComputeBox>& boxes, const std::vector<ColumnRun>& runs);

}  // namespace penstock
