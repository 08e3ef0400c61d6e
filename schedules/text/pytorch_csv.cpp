// Reads and writes PyTorch's CSV form of a schedule. The grammar is that of _Action.from_str in
// torch/distributed/pipelining/schedules.py, with two exceptions. Text after an action is an error. A
// microbatch after UNSHARD, RESHARD or REDUCE_GRAD is also an error.
//
//   0F0,0F1,,,0B0,0B1       a row for each rank; a blank cell is an idle step and is skipped
//   ,1F0,1B0,1F1,1B1,       a stage is on the rank that runs it; stage 0 has two forwards, so M is 2
//
// program_parser.cpp reads Penstock's own form. Tested by pytorch_csv_test.cpp.

#include "schedules/text/program_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/text/text_cursor.hpp"
#include "text/csv_table.hpp"

namespace penstock {
namespace {

using Failure = tl::unexpected<std::string>;

/// The lists of all ranks in a file, and the number of the line on which each list begins.
struct Rows {
  std::vector<std::vector<Action>> ranks;
  std::vector<std::size_t> lines;
};

/// Returns the text of a CSV cell without leading and trailing blanks. PyTorch also removes them before it
/// reads a cell.
std::string without_blanks(std::string_view cell) {
  const std::size_t begin = cell.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return std::string(cell.substr(begin, cell.find_last_not_of(" \t\r\n") - begin + 1));
}

/// Returns the error "FILE:LINE: rank R: RULE", where RULE is `rule`. The error names no column, because
/// quotes in a file may change the columns of its cells.
Failure failure(std::string_view file, std::size_t line, std::size_t rank, std::string_view rule) {
  return Failure(fmt::format("{}:{}: rank {}: {}", file, line, rank, rule));
}

/// Returns "; it is a cell of ..." if another dialect than `dialect` can read the cell. Otherwise returns
/// an empty text.
std::string other_dialect(std::string_view cell, CsvDialect dialect) {
  // A cell may be valid in several dialects. In this case the newest of them is suggested.
  for (const CsvDialect other : {CsvDialect::torch_2_6, CsvDialect::torch_2_5, CsvDialect::torch_2_4}) {
    if (other != dialect && read_csv_cell(cell, other)) {
      return fmt::format("; it is a cell of {0}: read the file with `--dialect {0}`", to_text(other));
    }
  }
  return "";
}

tl::expected<std::vector<Action>, std::string> read_row(const CsvRow& row, std::size_t rank,
                                                        std::string_view file, CsvDialect dialect) {
  std::vector<Action> actions;
  for (const std::string& raw : row.cells) {
    const std::string cell = without_blanks(raw);
    const auto read = read_csv_cell(cell, dialect);
    if (!read) {
      return failure(file, row.line, rank,
                     fmt::format("{}: {}{}", shown(cell), read.error(), other_dialect(cell, dialect)));
    }
    actions.insert(actions.end(), read->begin(), read->end());
  }
  if (actions.empty()) return failure(file, row.line, rank, "the row has no actions; delete it or fill it");
  return actions;
}

/// Returns an error message if the file has a W (gradient of the weights) but no I (gradient of the input).
/// This is possible only in the older dialects.
std::optional<std::string> lonely_weight(const Rows& rows) {
  std::optional<Action> weight;
  for (const std::vector<Action>& row : rows.ranks) {
    for (const Action& action : row) {
      if (action.kind == ActionKind::backward_input) return std::nullopt;
      if (action.kind == ActionKind::backward_weight && !weight) weight = action;
    }
  }
  if (!weight) return std::nullopt;
  return fmt::format(
      "{} has no I before it, and no other W has; torch 2.5 and older wrote B for I: read the file with "
      "`--dialect torch-2.5`",
      to_text(*weight));
}

/// Returns the lines of a text without their line ends.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    if (lines.back().ends_with('\r')) lines.back().remove_suffix(1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

constexpr std::string_view kFirstLabel = "Rank 0";

/// Reads a table that torch prints. The labels have the width of their columns, so they show where the cells
/// begin. A row of cells becomes a list of cells of each rank:
///
///          Rank 0  Rank 1
///   Step 0: 0F0               ->   0F0,0F1,...
///   Step 1: 0F1     1F0            ,1F0,...
std::vector<CsvRow> printed_rows(std::string_view text) {
  constexpr std::string_view kErrorMark = "<-- ERROR HERE";
  const std::vector<std::string_view> lines = lines_of(text);
  const auto labels = std::ranges::find_if(
      lines, [](std::string_view line) { return without_blanks(line).starts_with(kFirstLabel); });
  std::vector<std::size_t> begins;
  for (std::size_t at = labels->find("Rank "); at != std::string_view::npos;
       at = labels->find("Rank ", at + 1))
    begins.push_back(at);
  std::vector<CsvRow> rows(begins.size(),
                           {.line = static_cast<std::size_t>(labels - lines.begin()) + 1, .cells = {}});
  for (auto line = std::next(labels); line != lines.end(); ++line) {
    if (!without_blanks(*line).starts_with("Step ")) continue;
    const std::string_view cells = line->substr(0, line->find(kErrorMark));
    for (std::size_t rank = 0; rank < begins.size() && begins[rank] < cells.size(); ++rank) {
      const std::size_t end = rank + 1 < begins.size() ? begins[rank + 1] : cells.size();
      rows[rank].cells.emplace_back(cells.substr(begins[rank], end - begins[rank]));
    }
  }
  return rows;
}

tl::expected<Rows, std::string> read_rows(std::string_view text, std::string_view file, CsvDialect dialect) {
  const tl::expected<std::vector<CsvRow>, CsvFault> table =
      is_printed_schedule(text) ? printed_rows(text) : csv_rows(text);
  if (!table) return Failure(fmt::format("{}:{}: {}", file, table.error().line, table.error().message));
  if (table->empty()) {
    return Failure(
        fmt::format("{}: the file is empty; a schedule has a row of cells such as `0F0` a rank", file));
  }
  Rows rows;
  for (std::size_t rank = 0; rank < table->size(); ++rank) {
    auto actions = read_row((*table)[rank], rank, file, dialect);
    if (!actions) return Failure(std::move(actions.error()));
    rows.ranks.push_back(std::move(*actions));
    rows.lines.push_back((*table)[rank].line);
  }
  if (dialect != CsvDialect::torch_2_6) rows.ranks = halved_backwards(std::move(rows.ranks));
  if (const auto reason = lonely_weight(rows)) return Failure(fmt::format("{}: {}", file, *reason));
  return rows;
}

/// A pair of a stage and a rank that holds it.
struct HeldStage {
  std::int32_t stage = 0;
  std::int32_t rank = 0;

  friend auto operator<=>(const HeldStage&, const HeldStage&) = default;
};

/// Returns the stages that each rank holds, sorted by stage, without duplicates.
std::vector<HeldStage> held_stages(const Rows& rows) {
  std::vector<HeldStage> held;
  for (std::size_t rank = 0; rank < rows.ranks.size(); ++rank) {
    // The list of a rank names each stage many times. Duplicates are removed first, so that the sort over all
    // ranks is short.
    std::vector<std::int32_t> stages;
    for (const Action& action : rows.ranks[rank]) stages.push_back(action.stage);
    std::ranges::sort(stages);
    stages.erase(std::ranges::unique(stages).begin(), stages.end());
    for (const std::int32_t stage : stages)
      held.push_back({.stage = stage, .rank = static_cast<std::int32_t>(rank)});
  }
  std::ranges::sort(held);
  return held;
}

/// Returns the placement of the stages: each stage is on the rank that runs its actions. Fails if two rows
/// name the same stage or if a stage number is missing.
tl::expected<Placement, std::string> placement_of(const Rows& rows, std::string_view file) {
  Placement placement;
  for (const auto& [stage, rank] : held_stages(rows)) {
    // The entries are sorted by stage. If a stage is below the next expected number, the previous entry has
    // the same stage, so the stage is on two ranks.
    if (std::cmp_less(stage, placement.stages.size())) {
      const auto row = static_cast<std::size_t>(rank);
      return failure(file, rows.lines[row], row,
                     fmt::format("stage {} is on rank {} already; each stage must be on one rank only", stage,
                                 placement.stages.back().ranks.front()));
    }
    if (std::cmp_greater(stage, placement.stages.size())) {
      return Failure(
          fmt::format("{}: stage {} has no actions, but stage {} has; stages must be numbered from 0 "
                      "without gaps",
                      file, placement.stages.size(), stage));
    }
    placement.stages.push_back({.ranks = {rank}});
  }
  return placement;
}

bool is_forward(ActionKind kind) { return kind == ActionKind::forward; }

/// Returns the microbatches of a stage's actions in `row`, in ascending order. Only actions of the kinds
/// for which `is_one` returns true count.
std::vector<std::int32_t> microbatches_in(const std::vector<Action>& row, std::int32_t stage,
                                          bool (*is_one)(ActionKind)) {
  std::vector<std::int32_t> microbatches;
  for (const Action& action : row) {
    if (action.stage == stage && is_one(action.kind)) microbatches.push_back(action.microbatch);
  }
  std::ranges::sort(microbatches);
  return microbatches;
}

std::vector<std::int32_t> numbers_from(std::int32_t first, std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

/// Corrects the last rank's forwards if they are numbered from 1. Then it renumbers them from 0 and returns
/// a note; otherwise it returns nothing. Schedule1F1B._get_pipeline_order of torch 2.11 counts these
/// forwards from 1 and their backwards from 0.
std::optional<std::string> mend_last_forwards(Rows& rows, const Placement& placement, std::string_view file) {
  std::vector<Action>& row = rows.ranks.back();
  const auto stage = static_cast<std::int32_t>(placement.stages.size()) - 1;
  const auto first = static_cast<std::size_t>(placement.stages.front().ranks.front());
  const std::size_t microbatches = microbatches_in(rows.ranks[first], 0, is_forward).size();
  const bool is_alone = std::ranges::all_of(row, [&](const Action& action) { return action.stage == stage; });
  // The row is changed only if it has exactly the numbers that torch 2.11 writes.
  if (microbatches == 0 || !is_alone ||
      microbatches_in(row, stage, is_forward) != numbers_from(1, microbatches) ||
      microbatches_in(row, stage, makes_input_gradient) != numbers_from(0, microbatches)) {
    return std::nullopt;
  }
  for (Action& action : row) {
    if (is_forward(action.kind)) --action.microbatch;
  }
  return fmt::format(
      "{}:{}: rank {}: its forwards are numbered 1 to {} and were read as 0 to {}, as their backwards are: "
      "torch 2.11 dumps the last rank of its 1F1B so",
      file, rows.lines.back(), rows.ranks.size() - 1, microbatches, microbatches - 1);
}

/// Returns M, the number of microbatches. It is the number of forwards of stage 0. Fails if an action names
/// a microbatch that stage 0 does not run.
tl::expected<std::int32_t, std::string> microbatches_of(const Rows& rows, const Placement& placement,
                                                        std::string_view file) {
  const auto first = static_cast<std::size_t>(placement.stages.front().ranks.front());
  const auto forwards = static_cast<std::int32_t>(microbatches_in(rows.ranks[first], 0, is_forward).size());
  if (forwards == 0) {
    return failure(file, rows.lines[first], first,
                   "stage 0 has no forwards, but their number is the number of microbatches");
  }
  for (std::size_t rank = 0; rank < rows.ranks.size(); ++rank) {
    const auto outside = std::ranges::find_if(rows.ranks[rank], [&](const Action& action) {
      return has_microbatch(action.kind) && action.microbatch >= forwards;
    });
    if (outside == rows.ranks[rank].end()) continue;
    return failure(
        file, rows.lines[rank], rank,
        fmt::format("{}: microbatch {} is outside 0..{} (stage 0 has {} forward{})", to_text(*outside),
                    outside->microbatch, forwards - 1, forwards, forwards == 1 ? "" : "s"));
  }
  return forwards;
}

/// Returns the reason why `program` cannot be written as CSV, or nothing if it can. This function does not
/// check the actions.
std::optional<std::string> inexpressible(const Program& program) {
  for (std::size_t stage = 0; stage < program.placement.stages.size(); ++stage) {
    const std::size_t replicas = program.placement.stages[stage].ranks.size();
    if (replicas == 1) continue;
    return fmt::format("stage {} has {} replicas, and each stage must be on one rank", stage, replicas);
  }
  Program chain;
  chain.placement = program.placement;
  if (!program.edges.empty() && program.edges != stage_edges(chain))
    return "the stage edges must form a chain";
  if (has_forward_only_stage(program) && !is_forward_only(program))
    return "some stages run only forwards, and all or none must";
  if (program.slices != 1)
    return fmt::format("microbatches have {} slices and must have one", program.slices);
  if (program.iterations != 1)
    return fmt::format("it runs {} iterations and must run one", program.iterations);
  if (program.update != UpdateRule::minibatch) return "it must update once a minibatch";
  return std::nullopt;
}

/// Returns true if the program has backwards that are split into I and W. Every split backward has a W.
bool has_halved_backwards(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(
        actions, [](const Action& action) { return action.kind == ActionKind::backward_weight; });
  });
}

/// Returns the reason why the action cannot be written as CSV, or nothing if it can. A STEP is left out and
/// causes no error. The reader adds STEPs where PyTorch's optimizer runs.
std::optional<std::string> inexpressible(const Action& action, CsvDialect dialect, bool halves) {
  if (action.kind == ActionKind::recompute) return "there is no R; turn recomputation off";
  if (action.weight_version != 0) {
    return fmt::format("weight version {} must be 0, since there is no STEP", action.weight_version);
  }
  if (dialect == CsvDialect::torch_2_6 || action.kind == ActionKind::step) return std::nullopt;
  auto cell = old_csv_cell(action, dialect, halves);
  return cell ? std::nullopt : std::optional(std::move(cell.error()));
}

/// Returns a rank's list as one line of an older dialect. Requires that inexpressible() returns nothing for
/// each action.
std::string old_row_of(const std::vector<Action>& actions, CsvDialect dialect, bool halves) {
  std::vector<std::string> cells;
  for (const Action& action : actions) {
    if (action.kind != ActionKind::step) cells.push_back(*old_csv_cell(action, dialect, halves));
  }
  return fmt::format("{}", fmt::join(cells, ","));
}

/// Returns a rank's list as one line of the newest dialect. Each group is one cell.
std::string row_of(const std::vector<Action>& actions) {
  std::string row;
  bool in_group = false;
  for (const Action& action : actions) {
    // PyTorch's files have no STEP. The reader of such a file adds the STEPs again.
    if (action.kind == ActionKind::step) continue;
    if (in_group) {
      row += ';';
    } else {
      row += row.empty() ? "" : ",";
      row += action.overlaps_next ? "(" : "";
    }
    row += to_text(action);
    if (in_group && !action.overlaps_next) row += fmt::format("){}", group_word(action));
    in_group = action.overlaps_next;
  }
  return row;
}

}  // namespace

bool is_printed_schedule(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = without_blanks(text.substr(0, end));
    if (line.starts_with(kFirstLabel)) return true;
    // Older releases print a title of equals signs above the labels.
    if (!line.empty() && !line.starts_with('=')) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

tl::expected<ImportedCsv, std::string> import_pytorch_csv(std::string_view text, std::string_view file,
                                                          CsvDialect dialect, Passes passes) {
  auto rows = read_rows(without_byte_order_mark(text), file, dialect);
  if (!rows) return Failure(std::move(rows.error()));
  auto placement = placement_of(*rows, file);
  if (!placement) return Failure(std::move(placement.error()));
  ImportedCsv imported;
  if (auto mended = mend_last_forwards(*rows, *placement, file)) imported.notes.push_back(*std::move(mended));
  const auto microbatches = microbatches_of(*rows, *placement, file);
  if (!microbatches) return Failure(microbatches.error());
  Program& program = imported.program;
  program.schedule = "custom";
  // A PyTorch file has only lists. K, M and the placement follow from the lists, STEPs are appended, and all
  // other fields have their default values.
  program.microbatches = *microbatches;
  program.placement = std::move(*placement);
  program.ranks = std::move(rows->ranks);
  set_passes(program, passes);
  append_steps(program);
  return imported;
}

tl::expected<Program, std::string> parse_pytorch_csv(std::string_view text, std::string_view file,
                                                     CsvDialect dialect) {
  return import_pytorch_csv(text, file, dialect).map([](ImportedCsv imported) {
    return std::move(imported.program);
  });
}

tl::expected<std::string, std::string> to_pytorch_csv(const Program& program, CsvDialect dialect) {
  if (const auto reason = inexpressible(program)) {
    return Failure(fmt::format("PyTorch's CSV cannot express this program: {}", *reason));
  }
  const bool halves = has_halved_backwards(program);
  std::string csv;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (const Action& action : program.ranks[rank]) {
      const auto reason = inexpressible(action, dialect, halves);
      if (!reason) continue;
      return Failure(fmt::format("PyTorch's CSV cannot express this program: rank {}: {}: {}", rank,
                                 to_text(action), *reason));
    }
    csv += (dialect == CsvDialect::torch_2_6 ? row_of(program.ranks[rank])
                                             : old_row_of(program.ranks[rank], dialect, halves)) +
           "\n";
  }
  return csv;
}

}  // namespace penstock
