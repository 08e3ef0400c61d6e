#pragma once
// The CSV form in which torch.distributed.pipelining writes and reads schedules (`_dump_csv`, `_load_csv`). A
// row is a rank, a cell an action such as `0F3`, `1SEND_B2` or `(0F7;7B3)OVERLAP_F_B`. csv_dialect.hpp has
// the spellings of older releases.

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/program.hpp"
#include "schedules/text/csv_dialect.hpp"

namespace penstock {

/// A program that was read, and one sentence for each correction of its file.
struct ImportedCsv {
  Program program;
  std::vector<std::string> notes;

  friend bool operator==(const ImportedCsv&, const ImportedCsv&) = default;
};

/// Reads three forms: "compute_only" (F, B, I, W and blank cells for idle steps), "compute_comms", and the
/// latter with FSDP's UNSHARD, RESHARD and REDUCE_GRAD. Cells are read as Python's csv module does: LF or
/// CRLF, quotes. A byte order mark is skipped. Values that the form does not contain:
///  - stages: each stage is on the rank of its actions, and the edges form a chain;
///  - microbatches: M is the number of forwards of stage 0;
///  - the optimizer: one STEP for each stage of a rank at the end of its row, in ascending order;
///  - the schedule's name: "custom".
/// It corrects one known fault: torch 2.11 numbers the last rank's forwards of 1F1B from 1.
/// Errors: "FILE:LINE: rank R: CELL: ...".
tl::expected<ImportedCsv, std::string> import_pytorch_csv(std::string_view text, std::string_view file,
                                                          CsvDialect dialect = CsvDialect::torch_2_6);

/// Returns the program of import_pytorch_csv() without its notes.
tl::expected<Program, std::string> parse_pytorch_csv(std::string_view text, std::string_view file,
                                                     CsvDialect dialect = CsvDialect::torch_2_6);

/// Returns the CSV of `program`, without idle cells, with lines that end in LF. STEP actions, sharding and
/// the channel model are omitted. Error: a property that the form cannot express and without which the
/// program would change. Such properties are R, replicas, weight versions, edges other than a chain's,
/// slices, iterations, another update rule, and actions without a word in an older dialect.
tl::expected<std::string, std::string> to_pytorch_csv(const Program& program,
                                                      CsvDialect dialect = CsvDialect::torch_2_6);

}  // namespace penstock
