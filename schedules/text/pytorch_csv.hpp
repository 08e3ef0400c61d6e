#pragma once
// Reads and writes the CSV form of schedules in torch.distributed.pipelining (`_dump_csv`, `_load_csv`). A
// row is a rank. A cell is an action, such as `0F3`, `1SEND_B2` or `(0F7;7B3)OVERLAP_F_B`. csv_dialect.hpp
// has the spellings of older releases.

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/program.hpp"
#include "schedules/text/csv_dialect.hpp"

namespace penstock {

/// A program from a CSV file, and a sentence for each correction that was made.
struct ImportedCsv {
  Program program;
  std::vector<std::string> notes;

  friend bool operator==(const ImportedCsv&, const ImportedCsv&) = default;
};

/// Reads three forms: "compute_only" (F, B, I, W and blank cells for idle steps), "compute_comms", and
/// "compute_comms" with FSDP's UNSHARD, RESHARD and REDUCE_GRAD. Cells have the syntax of Python's csv
/// module: LF or CRLF, and quotes. A byte order mark is skipped. The file does not contain some values of a
/// program, so they are derived:
///  - stages: each stage is on the rank of its actions, and the edges form a chain;
///  - microbatches: M is the number of forwards of stage 0;
///  - the optimizer: one STEP for each stage of a rank at the end of its row, in ascending order;
///  - the schedule's name: "custom".
/// It corrects one known fault: torch 2.11 numbers the last rank's forwards of 1F1B from 1.
/// Errors: "FILE:LINE: rank R: CELL: ...".
tl::expected<ImportedCsv, std::string> import_pytorch_csv(std::string_view text, std::string_view file,
                                                          CsvDialect dialect = CsvDialect::torch_2_6);

/// Returns the program of import_pytorch_csv() without the notes.
tl::expected<Program, std::string> parse_pytorch_csv(std::string_view text, std::string_view file,
                                                     CsvDialect dialect = CsvDialect::torch_2_6);

/// Returns the CSV of `program`. It has no idle cells, and its lines end in LF. STEP actions, sharding and
/// the channel model are left out. Fails if the program would change because the form cannot express a
/// property: R, replicas, weight versions, edges other than a chain, slices, iterations, another update rule,
/// or an action without a word in an older dialect.
tl::expected<std::string, std::string> to_pytorch_csv(const Program& program,
                                                      CsvDialect dialect = CsvDialect::torch_2_6);

}  // namespace penstock
