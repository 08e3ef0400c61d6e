// Prints the figures of all schedules. Each row is a simulation of one schedule with the given shape, and its
// closed form if one applies. Schedules that do not accept the shape are left out. The tables of
// docs/reference are the output of these functions, and a test compares both. Thus the documents always agree
// with the program.

#include "cli/commands/schedule_listing.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "report/print/cells.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/timeline/timeline_text.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/closed_forms.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/runs/schedule_figures.hpp"

namespace penstock {
namespace {

/// Returns the sentences that explain the columns.
std::string legend(const Shape& shape) {
  return fmt::format(
      "K = {} ranks, M = {} microbatches, v = {} chunks a rank and q = {} slices where a schedule takes "
      "them. A stage takes F = I = W = 1 and B = 2; links are free. Idle: of each rank, by formula, where it "
      "holds. Bubble: idle over total. Inside: of the longest rank, from its first to its last action. "
      "Activations and weights: of the fullest rank; 1 is a microbatch's over a K-th of the model, and the "
      "weights of that, all versions counted. Sends: between ranks, a microbatch.",
      shape.stages, shape.microbatches, shape.virtual_stages, shape.slices);
}

/// Returns the table of all schedules that accept the shape. For example, chimera refuses an odd K and then
/// has no row.
Table schedule_table_of(const Shape& shape) {
  Table table;
  table.columns = {"schedule", "takes",       "idle",    "holds for", "bubble",
                   "inside",   "activations", "weights", "sends"};
  for (const ScheduleInfo& schedule : schedule_table()) {
    const std::optional<ScheduleFigures> figures = figures_of(schedule, shape);
    if (!figures) continue;
    const ClosedForm* form = find_closed_form(schedule.name);
    table.rows.push_back({text_cell(std::string(schedule.name)), text_cell(std::string(schedule.constraint)),
                          text_cell(std::string(form == nullptr ? "" : form->idle)),
                          text_cell(std::string(form == nullptr ? "" : form->holds)),
                          percent_cell(figures->idle_over_total), percent_cell(figures->longest_span_rate),
                          quantity_cell(figures->peak_activations), quantity_cell(figures->weights),
                          quantity_cell(figures->sends_per_microbatch)});
  }
  return table;
}

/// Returns the cells as one Markdown table row, such as "| a | b |".
std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += fmt::format(" {} |", cell);
  return row + '\n';
}

}  // namespace

std::string schedule_table_text(const Shape& shape, std::size_t width) {
  return table_to_text(schedule_table_of(shape), width) + '\n' + legend(shape) + '\n';
}

std::string schedule_table_markdown(const Shape& shape) {
  const Table table = schedule_table_of(shape);
  std::string text = markdown_row(table.columns);
  text += '|';
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    // Columns of numbers are aligned right. The table always has a first row, because the schedule `naive`
    // accepts every shape.
    text += table.rows.front()[column].value ? "---:|" : "---|";
  }
  text += '\n';
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const Cell& cell : row) cells.push_back(cell.text);
    text += markdown_row(cells);
  }
  return text + '\n' + legend(shape) + '\n';
}

std::string schedule_gallery_markdown(const Shape& shape) {
  constexpr std::int32_t kColumns = 118;
  std::string text = fmt::format(
      "# Every schedule at K = {}, M = {}\n\nA K-th of the model takes F = I = W = 1 ms and B = 2 ms; links "
      "are "
      "free. Made by `penstock schedules --gallery`.\n",
      shape.stages, shape.microbatches);
  for (const ScheduleInfo& schedule : schedule_table()) {
    const std::optional<ScheduleFigures> figures = figures_of(schedule, shape);
    if (!figures) continue;
    text += fmt::format("\n## {}\n\n{}: bubble {}, {}.\n\n```\n{}```\n", schedule.name, schedule.summary,
                        format_percent(figures->idle_over_total),
                        format_duration_short(figures->result.makespan_ns),
                        timeline_to_text(figures->result.timeline, {.columns = kColumns}));
  }
  return text;
}

}  // namespace penstock
