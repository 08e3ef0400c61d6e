// Writes a program as a table: a column for each rank and a line for each step of the lists.
//
//   step  rank 0  rank 1
//   0     0F0     1RECV_F0
//   1     0F1     1F0
//
// A line shows actions with equal positions in the lists. They need not run at the same time.
// timeline_text.cpp shows times. Tests: timeline_text_test.cpp.

#include "report/print/action_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/print/table.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// Returns the entries of one list. An overlapped pair is one entry. If the list ends before the second
/// action of a pair, the first action is an entry of its own.
std::vector<std::string> entries(const std::vector<Action>& actions) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const bool pair = actions[i].overlaps_next && i + 1 < actions.size();
    texts.push_back(pair ? fmt::format("({};{})OVERLAP_F_B", to_text(actions[i]), to_text(actions[i + 1]))
                         : to_text(actions[i]));
    if (pair) ++i;
  }
  return texts;
}

}  // namespace

std::string action_grid(const Program& program) {
  std::vector<std::vector<std::string>> columns;
  std::size_t steps = 0;
  for (const auto& actions : program.ranks) {
    columns.push_back(entries(actions));
    steps = std::max(steps, columns.back().size());
  }
  Table table;
  table.columns = {"step"};
  for (std::size_t rank = 0; rank < columns.size(); ++rank)
    table.columns.push_back(fmt::format("rank {}", rank));
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<Cell> row = {{std::to_string(step), static_cast<double>(step)}};
    for (const auto& column : columns)
      row.push_back({step < column.size() ? column[step] : "", std::nullopt});
    table.rows.push_back(std::move(row));
  }
  return table_to_text(table);
}

}  // namespace penstock
