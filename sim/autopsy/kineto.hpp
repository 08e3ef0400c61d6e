#pragma once
// Reads traces of PyTorch's profiler (Kineto). There is one file for each rank.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "sim/autopsy/events_csv.hpp"

namespace penstock {

/// A block of operators in a rank's trace that form one forward or backward pass. Blocks are used if the
/// trace does not name its actions.
struct TraceBlock {
  bool is_backward = false;
  Ns start_ns = 0;
  Ns end_ns = 0;
  std::vector<std::int64_t>
      sequence_numbers{};  ///< of its operators; a backward pass shares them with its forward
};

/// The division of a GPU's time into three parts: computation, exposed communication, and idle time. Their
/// sum is the window.
struct GpuWindow {
  Ns window_ns = 0;         ///< from the first to the last kernel
  Ns compute_ns = 0;        ///< at least one kernel computes
  Ns exposed_ns = 0;        ///< a kernel communicates and none computes
  Ns idle_ns = 0;           ///< no kernel runs
  Ns communication_ns = 0;  ///< a kernel communicates
};

/// The contents of the trace of one rank.
struct RankTrace {
  std::int64_t rank = 0;
  std::vector<RecordedRow> rows;   ///< actions of the ranges "PP:0F0"; empty if the trace has none
  std::vector<TraceBlock> blocks;  ///< used if there are no ranges
  std::optional<GpuWindow> gpu{};
};

/// Returns one line about the use of a rank's GPU: computation, exposed communication, and idle time.
std::string gpu_text(std::int64_t rank, const GpuWindow& window);

/// Returns true if the text is a trace of PyTorch's profiler (Kineto).
bool is_kineto(std::string_view text);

/// Reads the trace of one rank. The rank's number is in `distributedInfo`, or else follows the word "rank"
/// in the name of the file. Errors have the form "FILE: expected ..., got ...".
tl::expected<RankTrace, std::string> read_kineto(std::string_view text, std::string_view file);

/// Joins the traces of all ranks into one table of rows. Blocks become actions. In this case, rank r holds
/// stage r. A backward pass gets the microbatch of the forward pass with the same sequence numbers.
tl::expected<RecordedRows, std::string> joined_traces(std::vector<RankTrace> traces);

/// Returns the number that follows the word "rank" in the name of a file, such as 3 in
/// "trace_rank_3.json.gz". Returns nothing if there is none.
std::optional<std::int64_t> rank_in_name(std::string_view file);

}  // namespace penstock
