#pragma once
// Finds the differences between two results: figures that differ, and actions with different start or end
// times. The results may have different programs. compare.hpp instead compares a prediction with a
// measurement of the same program.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// An action that both results have, but with different start or end times.
struct MovedAction {
  std::int32_t rank = 0;
  std::string action;
  Ns before_start_ns = 0;
  Ns before_end_ns = 0;
  Ns after_start_ns = 0;
  Ns after_end_ns = 0;

  friend bool operator==(const MovedAction&, const MovedAction&) = default;
};

/// The differences between two results.
struct ResultDiff {
  /// A table of the figures that differ. Its columns are figure, before, after and change.
  Table figures;
  /// The compute actions whose start or end differs, in the order of their start in the first result.
  std::vector<MovedAction> moved;
  /// The number of compute actions, over all ranks, that only the first result has. `only_after` is the
  /// number of those that only the second result has.
  std::int64_t only_before = 0;
  std::int64_t only_after = 0;

  bool empty() const { return figures.rows.empty() && moved.empty() && only_before + only_after == 0; }
};

/// Returns the differences between two results. It compares the figures, and also the compute actions if
/// both results have timelines.
ResultDiff diff_results(const Result& before, const Result& after);

/// Returns the differences as text: the figures, the first `most_moved` actions, and the number of further
/// actions. The text is empty if nothing differs.
std::string to_text(const ResultDiff& diff, std::size_t most_moved);

}  // namespace penstock
