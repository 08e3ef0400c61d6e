#pragma once
// The CSV form in which torch.distributed.pipelining writes and reads schedules (`_dump_csv`, `_load_csv`).
// Each line is the list of a rank. Each cell is an action such as `0F3`, `1SEND_B2` or
// `(0F7;7B3)OVERLAP_F_B`. Older releases write cells in other forms, which are called dialects here.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// A dialect of PyTorch's CSV files, named after the release that introduced it. The source is schedules.py
/// of each release.
enum class CsvDialect : std::uint8_t {
  torch_2_4,  // F0_s1: kind, microbatch, stage; only F, B and W; a B whose file has its W means I
  torch_2_5,  // 1F0, 1B0, 1W0, 1BW0: a B whose file has its W means I, and BW is the full backward;
              // 0SEND_F1_0RECV_B0 for two messages at once; no REDUCE_GRAD and no overlapped pairs
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
/// module: line ends are LF or CRLF, and cells may be quoted. A byte order mark is skipped. A text that
/// is_printed_schedule() is read, too. The file does not
/// contain all values of a program, so these values are derived:
///  - stages: each stage is on the rank of its actions, and the edges form a chain;
///  - microbatches: M is the number of forwards of stage 0;
///  - the optimizer: one STEP for each stage of a rank at the end of its row, in ascending order, unless
///    `passes` says that the stages run only forwards, which the file cannot say;
///  - the schedule's name: "custom".
/// It corrects one known fault: torch 2.11 numbers the last rank's forwards of 1F1B from 1.
/// Errors: "FILE:LINE: rank R: CELL: ...".
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
