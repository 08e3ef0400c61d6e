#pragma once
// Penstock's own text form of a program (.psched files). It can express every program, unlike PyTorch's CSV.
// Each option, stage and rank has its own line, so that line-based diffs are readable.
//
//   penstock program 1
//   schedule 1f1b
//   microbatches 2
//   iterations 3              this and the following options are written only if they are not the default
//   slices 2
//   barrier
//   versions mixed            a backward may use other weights than its F
//   update microbatch         or double_buffered
//   recompute late
//   sharding 2
//   channel pair
//   edges 0>1 0>2 1>2         without this line the stages form a chain
//   stage 0: rank 0
//   stage 1: ranks 1 2 route 0 1
//   rank 0: 0F0 0F1 (0B0;0W1@1)OVERLAP_F_B 0SEND_F0 0SEND_F1>2 0STEP
//   rank 1: ...
//
// `@1` is a weight version other than 0. `>2` after a SEND, or `<0` after a RECV, is a peer that is not the
// neighbouring stage. Blank lines and `# comments` are allowed everywhere.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// Returns the text of `program` with all its fields. Equal programs give equal texts. If `program` is valid,
/// parse_program() reads an equal program from the text.
std::string to_text(const Program& program);
/// Returns the text form of an edge: "0>1", "0>1!" if it carries only activations, "0<1!" if only gradients.
std::string to_text(const StageEdge& edge);
/// Reads the text form of an edge. The error says what was expected and what was found.
tl::expected<StageEdge, std::string> parse_edge(std::string_view text);

/// Reads a program. `file` is the name that error messages show. The function checks only the text, and
/// validate.hpp checks the program. The error has the form "FILE:LINE:COLUMN: expected ..., got ...".
tl::expected<Program, std::string> parse_program(std::string_view text, std::string_view file);

// The header, which begins every .psched file.

inline constexpr std::string_view kProgramHeader = "penstock program 1";

// Draws a part of a program as a table, like PyTorch: one column for each rank, and one row for each step.

/// A position in the list of a rank. The number of actions in the list stands for the end of the list.
struct ProgramPlace {
  std::int32_t rank = 0;
  std::size_t position = 0;

  friend bool operator==(const ProgramPlace&, const ProgramPlace&) = default;
};

/// The largest size of a table: `steps` rows and `ranks` columns.
struct GridSize {
  std::size_t steps = 7;
  std::size_t ranks = 8;
};

/// Returns the part of `program` around `marked` as a table. The marked cell ends in "<-- here". A column
/// belongs to a rank, and row k shows entry k of each list. An overlapped group is one entry. Requires 0 <=
/// marked.rank < program.rank_count().
std::string schedule_grid(const Program& program, const ProgramPlace& marked, const GridSize& size = {});

// The differences between two programs: their settings, their placement, and each rank's list. The lists are
// compared by a shortest edit script.

/// One entry of an edit script, which turns one list into another. A script reads both lists from the
/// beginning to the end.
enum class Edit : std::uint8_t {
  same,     // a word of both lists
  removed,  // a word of the first list only
  added,    // a word of the second list only
};

/// Returns a shortest edit script from `before` to `after` (Myers, "An O(ND) Difference Algorithm",
/// Algorithmica 1986). If more than kMostEdits words differ, only the words at the common beginning and end
/// remain. The script then removes and adds all other words. Takes time O(words * edits) and memory O(edits
/// * min(words, kMostEdits)).
std::vector<Edit> edit_script(std::span<const std::string> before, std::span<const std::string> after);
inline constexpr std::int32_t kMostEdits = 4096;

/// A text for one setting or placement that differs: "microbatches 8 -> microbatches 16", "+ sharding 2" or
/// "- barrier".
using SettingChange = std::string;

/// Consecutive actions of a rank's list that only one program has, or that the other program has at another
/// position.
struct ListChange {
  /// The position in the first program's list at which the change begins.
  std::int32_t position = 0;
  /// The texts of actions that only the first program has at this position.
  std::vector<std::string> removed;
  /// The texts of actions that only the second program has at this position.
  std::vector<std::string> added;

  friend bool operator==(const ListChange&, const ListChange&) = default;
};

/// The changes of one rank's list, in list order. They form a shortest edit script.
struct RankChanges {
  std::int32_t rank = 0;
  /// The number of actions in the first program's list.
  std::int32_t actions = 0;
  std::vector<ListChange> changes;

  friend bool operator==(const RankChanges&, const RankChanges&) = default;
};

/// All differences between two programs.
struct ProgramDiff {
  std::vector<SettingChange> settings;
  /// The ranks with different lists, in ascending order.
  std::vector<RankChanges> ranks;

  bool empty() const { return settings.empty() && ranks.empty(); }
  friend bool operator==(const ProgramDiff&, const ProgramDiff&) = default;
};

/// Returns the differences from `before` to `after`. It ignores the schedule's name. A rank that only one
/// program has counts as an empty list in the other program. Takes time O(actions * differences); see
/// edit_script().
ProgramDiff diff_programs(const Program& before, const Program& after);

/// Returns the differences as text: first the settings, then the changes of each rank, such as " position 3:
/// - 0B0 + 0F4". For each rank it writes at most `most_changes` changes, and then the number of the others.
/// The text is empty if there are no differences.
std::string to_text(const ProgramDiff& diff, std::size_t most_changes);

// The CSV form in which torch.distributed.pipelining writes and reads schedules (`_dump_csv`, `_load_csv`).
// Each line is the list of a rank. Each cell is an action such as `0F3`, `1SEND_B2` or
// `(0F7;7B3)OVERLAP_F_B`. Older releases write cells in other forms, which are called dialects here.

/// A dialect of PyTorch's CSV files, named after the release that introduced it. The source is schedules.py
/// of each release.
enum class CsvDialect : std::uint8_t {
  torch_2_4,  // F0_s1: kind, microbatch, stage; only F, B and W; B means I if the file has a W for it
  torch_2_5,  // 1F0, 1B0, 1W0, 1BW0, 0SEND_F1_0RECV_B0: B means I if the file has a W for it; BW is the full
              // backward
  torch_2_6,  // 1F0, 1I0, 1W0, 1B0, (0F7;7B3)OVERLAP_F_B: 2.6 and later
};
template <>
inline constexpr auto kEnumWords<CsvDialect> =
    std::to_array<EnumWord<CsvDialect>>({{CsvDialect::torch_2_4, "torch-2.4"},
                                         {CsvDialect::torch_2_5, "torch-2.5"},
                                         {CsvDialect::torch_2_6, "torch-2.6"}});

/// Returns the dialect with a name such as "torch-2.5" or "2.5", or nothing if there is none.
std::optional<CsvDialect> csv_dialect_of_text(std::string_view text);

/// Returns the actions of a CSV cell, or an empty list if the cell is empty or None. Requires a cell
/// without blanks around it. In older dialects, it returns each B as I (gradient of the input), and
/// halved_backwards() corrects this for the whole file. The error says what was expected and what was
/// found.
tl::expected<std::vector<Action>, std::string> read_csv_cell(std::string_view cell, CsvDialect dialect);

/// Returns `rows`, in which a B replaces every I (gradient of the input) without a W (gradient of the
/// weights). The W must have the same stage and microbatch in the same list.
std::vector<std::vector<Action>> halved_backwards(std::vector<std::vector<Action>> rows);

/// Returns the CSV cell of an action in an older dialect. `halves` is true if the program has I and W in
/// place of B. The error says why the dialect has no word for the action. Requires a dialect before
/// torch_2_6.
tl::expected<std::string, std::string> old_csv_cell(const Action& action, CsvDialect dialect, bool halves);

/// Returns true if the text is a table in which torch prints a schedule (_format_pipeline_order). Such a
/// table has a column for each rank, below a line of labels that begins with "Rank 0".
bool is_printed_schedule(std::string_view text);

/// A program from a CSV file, and one sentence for each correction that the reader has made.
struct ImportedCsv {
  Program program;
  std::vector<std::string> notes;

  friend bool operator==(const ImportedCsv&, const ImportedCsv&) = default;
};

/// Reads three forms of PyTorch: "compute_only" (F, B, I, W and blank cells for idle steps), "compute_comms",
/// and "compute_comms" with FSDP's UNSHARD, RESHARD and REDUCE_GRAD. Cells have the syntax of Python's csv
/// module: line ends are LF or CRLF, and cells may be quoted. A byte order mark is skipped. The text of a
/// printed schedule (is_printed_schedule()) is also accepted. The file does not contain all values of a
/// program, so these values are derived:
///  - stages: each stage is on the rank of its actions, and the edges form a chain;
///  - microbatches: M is the number of forwards of stage 0;
///  - the optimizer: one STEP for each stage of a rank at the end of its row, in ascending order, unless
///    `passes` says that the stages run only forwards, which the file cannot say;
///  - the schedule's name: "custom".
/// It corrects one known fault: torch 2.11 numbers the last rank's forwards of 1F1B from 1.
/// An error has the form "FILE:LINE: rank R: CELL: ...".
tl::expected<ImportedCsv, std::string> import_pytorch_csv(std::string_view text, std::string_view file,
                                                          CsvDialect dialect = CsvDialect::torch_2_6,
                                                          Passes passes = Passes::both);

/// Returns the program of import_pytorch_csv() without the notes.
tl::expected<Program, std::string> parse_pytorch_csv(std::string_view text, std::string_view file,
                                                     CsvDialect dialect = CsvDialect::torch_2_6);

/// Returns the CSV of `program`. It has no idle cells, and its lines end in LF. STEP actions, sharding and
/// the channel model are left out, and so is the statement that all stages run only forwards. Fails if the
/// form cannot express a property of the program: R, replicas, weight versions, edges other than a chain,
/// only some stages with backwards, slices, iterations, or another update rule. Also fails if the dialect is
/// older and has no word for an action.
tl::expected<std::string, std::string> to_pytorch_csv(const Program& program,
                                                      CsvDialect dialect = CsvDialect::torch_2_6);

}  // namespace penstock
