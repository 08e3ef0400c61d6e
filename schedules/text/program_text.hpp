#pragma once
// Penstock's own text form of a program (.psched files). Unlike pytorch_csv.hpp, it can express every
// program. Each option, stage and rank has its own line, so that line-based diffs are readable.
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

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

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

}  // namespace penstock
