#pragma once
// The CSV form in which torch.distributed.pipelining dumps and loads schedules (`_dump_csv`, `_load_csv`): a
// row a rank, a cell an action such as `0F3`, `1SEND_B2`, `(0F7;7B3)OVERLAP_F_B`. csv_dialect.hpp has the
// spellings of older releases.

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/program.hpp"
#include "schedules/text/csv_dialect.hpp"

namespace penstock {

/// A program that was read, and what had to be mended in its file, a sentence each.
struct ImportedCsv {
  Program program;
  std::vector<std::string> notes;

  friend bool operator==(const ImportedCsv&, const ImportedCsv&) = default;
};

/// Reads the form "compute_only" (F, B, I, W and blank cells for idle steps), "compute_comms" and the latter
/// with FSDP's UNSHARD, RESHARD and REDUCE_GRAD. Cells are read as Python's csv module does: LF or CRLF,
/// quotes. What the form leaves out becomes:
///  - stages: each is where its actions are; their edges form a chain;
///  - microbatches: as many as stage 0 has forwards;
///  - the optimizer: one STEP for each stage of a rank at the end of its row, in ascending order.
/// The schedule's name is "custom". A byte order mark is skipped. What is mended: the last rank's forwards of
/// 1F1B as torch 2.11 numbers them, from 1. Errors: "FILE:LINE: rank R: CELL: ...".
tl::expected<ImportedCsv, std::string> import_pytorch_csv(std::string_view text, std::string_view file,
                                                          CsvDialect dialect = CsvDialect::torch_2_6);

/// The program of import_pytorch_csv().
tl::expected<Program, std::string> parse_pytorch_csv(std::string_view text, std::string_view file,
                                                     CsvDialect dialect = CsvDialect::torch_2_6);

/// The CSV of `program`, without idle cells, lines ending in LF. STEP actions are left out, and so are
/// sharding and the channel model. Errors: what the form cannot say, which would change the program (R,
/// replicas, weight versions, other edges than the chain's, slices, iterations, another update rule, and in
/// the older dialects what they have no word for).
tl::expected<std::string, std::string> to_pytorch_csv(const Program& program,
                                                      CsvDialect dialect = CsvDialect::torch_2_6);

}  // namespace penstock
