// Chooses the action that each column of a text timeline shows. If the greatest common divisor of all
// times is long enough, each multiple of it gets one or more columns, and the picture is exact. Otherwise
// time is scaled. If actions fill at least half of a column, the column shows the action with the largest
// share. An idle column shows the collective for which the rank waits. Tests: timeline_text_test.cpp.

#include "report/timeline/timeline_columns.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// Returns the label of one action: "F3", or "2F3" if `with_stage` is true. The label of a STEP is "S",
/// because a column may have room for only one letter.
std::string leaf_label(const Action& action, bool with_stage) {
  std::string label = with_stage ? std::to_string(action.stage) : "";
  label += action.kind == ActionKind::step ? "S" : letters(action.kind);
  if (has_microbatch(action.kind)) label += std::to_string(action.microbatch);
  return label;
}

std::int32_t owner_of(ActionKind collective) {
  if (collective == ActionKind::reload) return kReloadColumn;
  return collective == ActionKind::reduce_grad ? kReduceColumn : kGatherColumn;
}

/// The largest share of each column, and the box that has this share. If two shares are equal, the box that
/// was added first has the column.
///
///     column   0         1         2
///              |--- F0 ----|-- F1 --|           owners F0, F1, F1; sums 1, 1, 0.1
struct Shares {
  std::vector<std::int32_t> owner;
  std::vector<double> largest;
  std::vector<double> sum;

  explicit Shares(std::size_t columns) : owner(columns, kIdleColumn), largest(columns, 0), sum(columns, 0) {}

  void add(std::int32_t who, double from, double to) {
    for (auto column = static_cast<std::size_t>(from);
         column < owner.size() && static_cast<double>(column) < to; ++column) {
      const auto left = static_cast<double>(column);
      const double share = std::min(to, left + 1) - std::max(from, left);
      sum[column] += share;
      if (share <= largest[column]) continue;
      largest[column] = share;
      owner[column] = who;
    }
  }
};

}  // namespace

std::string TextLabels::label(const ComputeBox& box) const {
  std::string text = leaf_label(box.action, with_stage);
  if (!box.partner) return text;
  text += ';';
  return text + leaf_label(*box.partner, with_stage);
}

TextLabels labels_of(const std::vector<std::vector<ComputeBox>>& ranks) {
  TextLabels labels;
  for (const auto& boxes : ranks) labels.with_stage |= stages_of(boxes).size() > 1;
  for (const auto& boxes : ranks) {
    for (const ComputeBox& box : boxes) {
      if (box.duration_ns() == 0) continue;
      labels.longest = std::max(labels.longest, labels.label(box).size());
      if (labels.shortest_ns == 0) labels.shortest_ns = box.duration_ns();
      labels.shortest_ns = std::min(labels.shortest_ns, box.duration_ns());
    }
  }
  return labels;
}

double TextScale::column_of(Ns time_ns) const {
  if (unit_ns > 0) {
    const std::int64_t column = time_ns / unit_ns * columns_per_unit;
    return static_cast<double>(column);
  }
  return static_cast<double>(time_ns) / static_cast<double>(makespan_ns) * static_cast<double>(columns);
}

TextScale scale_of(const std::vector<std::vector<ComputeBox>>& ranks, Ns makespan_ns,
                   const TextLabels& labels, std::int64_t available) {
  // The unit is the largest time that divides all starts and ends. Transfers are ignored, because they are
  // not drawn.
  Ns unit = makespan_ns;
  for (const auto& boxes : ranks) {
    for (const ComputeBox& box : boxes) unit = std::gcd(unit, std::gcd(box.start_ns, box.end_ns));
  }
  if (makespan_ns / unit > available) return {makespan_ns, 0, 0, available};
  const Ns units = makespan_ns / unit;
  const Ns shortest_units = std::max<Ns>(1, labels.shortest_ns / unit);
  // With this number of columns for each unit, the longest label fits into the shortest box. More columns are
  // not needed.
  const Ns wanted =
      // one more column than the label has characters
      (static_cast<Ns>(labels.longest) + shortest_units) / shortest_units;
  const std::int64_t columns_per_unit =
      std::clamp<std::int64_t>(available / units, 1, std::max<Ns>(1, wanted));
  return {makespan_ns, unit, columns_per_unit, units * columns_per_unit};
}

std::vector<std::int32_t> column_owners(const std::vector<ComputeBox>& boxes,
                                        std::span<const Span> collectives, const TextScale& scale) {
  const auto columns = static_cast<std::size_t>(scale.columns);
  Shares busy(columns);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    busy.add(static_cast<std::int32_t>(i), scale.column_of(boxes[i].start_ns),
             scale.column_of(boxes[i].end_ns));
  }
  Shares collective(columns);
  for (const Span& span : collectives) {
    collective.add(owner_of(span.action.kind), scale.column_of(span.start_ns), scale.column_of(span.end_ns));
  }
  for (std::size_t column = 0; column < columns; ++column) {
    if (busy.sum[column] >= 0.5) continue;
    busy.owner[column] = collective.sum[column] >= 0.5 ? collective.owner[column] : kIdleColumn;
  }
  return busy.owner;
}

std::vector<ColumnRun> runs_of(const std::vector<std::int32_t>& owners) {
  std::vector<ColumnRun> runs;
  for (const std::int32_t owner : owners) {
    if (runs.empty() || runs.back().owner != owner) runs.push_back({owner, 0});
    ++runs.back().columns;
  }
  return runs;
}

bool shows_every_box(const std::vector<ComputeBox>& boxes, const std::vector<ColumnRun>& runs) {
  const auto shown = std::ranges::count_if(runs, [](const ColumnRun& run) { return run.owner >= 0; });
  const auto timed =
      std::ranges::count_if(boxes, [](const ComputeBox& box) { return box.duration_ns() > 0; });
  // A box is one interval, so it owns at most one run. If there are fewer runs than boxes that take time,
  // some box owns no column.
  return shown >= timed;
}

}  // namespace penstock
