#pragma once
// Which action each column of a line of text stands for. Used by timeline_text.hpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_rows.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The facts about a whole timeline that decide how its boxes are labelled.
struct TextLabels {
  bool with_stage = false;  ///< some rank holds several stages
  std::size_t longest = 0;  ///< characters of the longest label
  Ns shortest_ns = 0;       ///< of the boxes that take time; 0: none does

  /// "F3", "2F3", "0F5;3B2".
  std::string label(const ComputeBox& box) const;
};

TextLabels labels_of(const std::vector<std::vector<ComputeBox>>& ranks);

/// How time becomes columns. `unit_ns` > 0: each unit is `columns_per_unit` columns exactly.
struct TextScale {
  Ns makespan_ns = 0;
  Ns unit_ns = 0;
  std::int64_t columns_per_unit = 0;
  std::int64_t columns = 0;

  double column_of(Ns time_ns) const;
};

/// Exact columns where the unit of all times has at least one of the `available`, and as many as the labels
/// need; otherwise all that are available. Requires makespan_ns > 0.
TextScale scale_of(const std::vector<std::vector<ComputeBox>>& ranks, Ns makespan_ns,
                   const TextLabels& labels, std::int64_t available);

/// What a column shows if not a box (an index from 0 on).
inline constexpr std::int32_t kIdleColumn = -1;
inline constexpr std::int32_t kReduceColumn = -2;  ///< idle while gradients are reduced
inline constexpr std::int32_t kGatherColumn = -3;  ///< idle while weights are gathered

/// For each column the box with the largest share of it; where idling has more than half, kIdleColumn, or the
/// collective that has at least half.
std::vector<std::int32_t> column_owners(const std::vector<ComputeBox>& boxes,
                                        std::span<const Span> collectives, const TextScale& scale);

/// Neighbouring columns of one owner.
struct ColumnRun {
  std::int32_t owner = kIdleColumn;
  std::size_t columns = 0;
};
std::vector<ColumnRun> runs_of(const std::vector<std::int32_t>& owners);

/// Whether each box that takes time has a column.
bool shows_every_box(const std::vector<ComputeBox>& boxes, const std::vector<ColumnRun>& runs);

}  // namespace penstock
