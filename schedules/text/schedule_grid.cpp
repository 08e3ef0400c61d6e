// Draws the steps around a fault, for error messages:
//
//   step  rank 0  rank 1
//      2  0F2     1B0 <-- here
//      3  0B0     1F1
//
// The table has only a few steps before and after the fault, and a few neighbouring ranks. In a large table
// the fault would be hard to find. Tested by validate_test.cpp.

#include "schedules/text/schedule_grid.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

constexpr const char* kMark = "<-- here";

/// Returns the texts of at most `count` entries of a list, beginning with step `first`. A group is one entry,
/// "(0F5;3B2)".
std::vector<std::string> cells(const std::vector<Action>& actions, std::size_t first, std::size_t count) {
  std::vector<std::string> texts;
  std::size_t step = 0;
  for (std::size_t at = 0; at < actions.size() && step < first + count; ++step) {
    std::string text = to_text(actions[at]);
    const bool group = actions[at].overlaps_next;
    while (actions[at].overlaps_next && at + 1 < actions.size())
      text += fmt::format(";{}", to_text(actions[++at]));
    ++at;
    if (step >= first) texts.push_back(group ? fmt::format("({})", text) : text);
  }
  return texts;
}

/// Returns the step of the action at `position`. A group is one step, so an action that overlaps the next one
/// does not count.
std::size_t step_of(const std::vector<Action>& actions, std::size_t position) {
  const auto until = actions.begin() + static_cast<std::ptrdiff_t>(std::min(position, actions.size()));
  return position - static_cast<std::size_t>(std::count_if(
                        actions.begin(), until, [](const Action& action) { return action.overlaps_next; }));
}

/// Returns the first of `count` consecutive numbers below `all`. They are chosen so that `middle` is in the
/// middle, if possible.
std::size_t window(std::size_t middle, std::size_t count, std::size_t all) {
  const std::size_t first = middle > count / 2 ? middle - count / 2 : 0;
  return all > count ? std::min(first, all - count) : 0;
}

std::string padded(const std::string& text, std::size_t width) { return fmt::format("{:<{}}", text, width); }

std::string without_blanks_at_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string schedule_grid(const Program& program, const ProgramPlace& marked, const GridSize& size) {
  const auto marked_rank = static_cast<std::size_t>(marked.rank);
  const std::size_t ranks = program.ranks.size();
  const std::size_t first_rank = window(marked_rank, size.ranks, ranks);
  const std::size_t last_rank = std::min(first_rank + size.ranks, ranks);
  const std::size_t marked_step = step_of(program.ranks[marked_rank], marked.position);
  // Lists have different lengths, but all columns need the same number of rows. Rows that are empty for all
  // ranks are removed below.
  const std::size_t first_step = marked_step > size.steps / 2 ? marked_step - size.steps / 2 : 0;

  std::vector<std::string> lines{"step  "};
  for (std::size_t row = 0; row < size.steps; ++row)
    lines.push_back(fmt::format("{:>4}  ", first_step + row));
  // The marked row is drawn even if it is after the end of all lists.
  std::size_t used_rows = marked_step - first_step + 1;
  for (std::size_t rank = first_rank; rank < last_rank; ++rank) {
    std::vector<std::string> column = cells(program.ranks[rank], first_step, size.steps);
    used_rows = std::max(used_rows, column.size());
    column.resize(size.steps);
    if (rank == marked_rank) {
      std::string& cell = column[marked_step - first_step];
      cell += cell.empty() ? kMark : std::string(" ") + kMark;
    }
    column.insert(column.begin(), fmt::format("rank {}", rank));
    const std::size_t width = std::ranges::max_element(column, {}, &std::string::size)->size() + 2;
    for (std::size_t row = 0; row < column.size(); ++row) lines[row] += padded(column[row], width);
  }
  lines.resize(used_rows + 1);
  std::string grid;
  for (std::string& line : lines) grid += without_blanks_at_end(std::move(line)) + "\n";
  grid.pop_back();
  return grid;
}

}  // namespace penstock
