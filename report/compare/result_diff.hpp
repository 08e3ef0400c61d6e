#pragma once
// What differs between two results, of whatever programs: figures, and the actions that start at another
// time. compare.hpp holds a prediction against a measurement of one program instead.

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

struct ResultDiff {
  Table figures;                   ///< figure, before, after, change; only those that differ
  std::vector<MovedAction> moved;  ///< by their start in the first result
  std::int64_t only_before = 0;    ///< compute actions that the other timeline does not have on that rank
  std::int64_t only_after = 0;

  bool empty() const { return figures.rows.empty() && moved.empty() && only_before + only_after == 0; }
};

/// Compares figures, and compute actions where both results have timelines.
ResultDiff diff_results(const Result& before, const Result& after);

/// The figures, then the first `most_moved` actions and how many there are more. Empty when nothing differs.
std::string to_text(const ResultDiff& diff, std::size_t most_moved);

}  // namespace penstock
