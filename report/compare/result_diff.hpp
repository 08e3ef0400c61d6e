#pragma once
// The differences between two results, also of different programs: figures, and actions that start at another
// time. compare.hpp compares a prediction with a measurement of one program instead.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// An action that both results have and that starts or ends at another time.
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
  /// The figures that differ, with the columns figure, before, after and change.
  Table figures;
  /// The moved actions, ordered by their start in the first result.
  std::vector<MovedAction> moved;
  /// The compute actions that the other timeline does not have on that rank.
  std::int64_t only_before = 0;
  std::int64_t only_after = 0;

  bool empty() const { return figures.rows.empty() && moved.empty() && only_before + only_after == 0; }
};

/// Compares figures, and compute actions if both results have timelines.
ResultDiff diff_results(const Result& before, const Result& after);

/// Returns the figures, the first `most_moved` actions, and the number of further ones. Empty if nothing
/// differs.
std::string to_text(const ResultDiff& diff, std::size_t most_moved);

}  // namespace penstock
