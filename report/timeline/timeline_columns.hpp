#pragma once
// The action that each column of a line of text stands for. timeline_text.hpp uses it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_rows.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The properties of a whole timeline that decide how its boxes are labelled.
struct TextLabels {
  /// True if some rank holds several stages.
  bool with_stage = false;
  /// The number of characters of the longest label.
  std::size_t longest = 0;
  /// The time of the shortest box that takes time; 0 if none does.
  Ns shortest_ns = 0;

  /// Returns a label such as "F3", "2F3" or "0F5;3B2".
  std::string label(const ComputeBox& box) const;
};

/// Returns these properties of a timeline.
TextLabels labels_of(const std::vector<std::vector<ComputeBox>>& ranks);

/// The map from time to columns. If `unit_ns` > 0, each unit of time is exactly `columns_per_unit` columns.
struct TextScale {
  Ns makespan_ns = 0;
  Ns unit_ns = 0;
  std::int64_t columns_per_unit = 0;
  std::int64_t columns = 0;

  /// Returns the column at a time, which may be a fraction.
  double column_of(Ns time_ns) const;
};

/// Returns the scale of a line. If every unit of the times can have at least one of the `available` columns,
/// the scale is exact and gives a unit as many columns as the labels need. Otherwise it uses all available
/// columns. Requires makespan_ns > 0.
TextScale scale_of(const std::vector<std::vector<ComputeBox>>& ranks, Ns makespan_ns,
                   const TextLabels& labels, std::int64_t available);

/// The owners of columns that show no box. A box is its index, from 0 on.
inline constexpr std::int32_t kIdleColumn = -1;
/// The owner of a column in which the rank is idle while gradients are reduced.
inline constexpr std::int32_t kReduceColumn = -2;
/// The owner of a column in which the rank is idle while weights are gathered.
inline constexpr std::int32_t kGatherColumn = -3;

/// Returns the owner of each column: the box that has the largest share of it, if boxes have at least half of
/// it together. Otherwise it is the collective, if collectives have at least half, or kIdleColumn.
std::vector<std::int32_t> column_owners(const std::vector<ComputeBox>& boxes,
                                        std::span<const Span> collectives, const TextScale& scale);

/// A run of neighbouring columns with one owner.
struct ColumnRun {
  std::int32_t owner = kIdleColumn;
  std::size_t columns = 0;
};
/// Returns the runs of a line.
std::vector<ColumnRun> runs_of(const std::vector<std::int32_t>& owners);

/// Returns true if each box that takes time has a column.
bool shows_every_box(const std::vector<ComputeBox>& boxes, const std::vector<ColumnRun>& runs);

}  // namespace penstock
