#pragma once
// Reads the files of a recorded run, which may be compressed by gzip.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "sim/autopsy/recording.hpp"

namespace penstock {

/// The largest size of a recorded file in bytes. It holds both before and after decompression.
inline constexpr std::size_t kLargestTrace = std::size_t{1} << 30U;

/// The largest size of a file that is parsed as a whole, such as a dump.
inline constexpr std::size_t kLargestDump = std::size_t{1} << 27U;

/// Returns the content of a file, or of standard input if the path is "-", decompressed if it is a gzip file.
/// Fails if the file cannot be read, is too large, or is a damaged gzip file. The error begins with `name`.
tl::expected<std::string, std::string> read_trace_file(const std::filesystem::path& path,
                                                       std::string_view name);

// Reads events.csv, the format in which any runtime can record its actions. Each row has one action:
//
//     step,copy,rank,action,start_us,end_us
//     23,0,0,0F0,48926,112385
//     23,0,0,0SEND_F0,112387,112767
//
// The columns `step` and `copy` may be missing. The columns `kind`, `stage` and `microbatch` may replace
// `action`. The header states the unit of the times: ns, us, ms or s.

/// The rows that were read from one or several files, and notes on rows that were left out.
struct RecordedRows {
  std::vector<RecordedRow> rows;
  std::vector<std::string> notes;
  std::int64_t world_size = 0;  ///< number of ranks of the job as the files state it; 0 if they do not
};

/// Reads a table of events. Leaves out rows whose action is a word, such as "optimizer", and counts them in
/// a note. Errors have the form "FILE:LINE: expected ..., got ...".
tl::expected<RecordedRows, std::string> read_events(std::string_view text, std::string_view file);

/// Returns a recording in the format events.csv, with times in nanoseconds. If read_events() reads this text,
/// it returns the same recording.
std::string events_to_csv(const Recording& recording);

// Reads the schedule dumps of Primus: config.json, and a rank_N.json for each rank. A rank's file has the
// starts and ends of the forward and backward passes in each iteration, in milliseconds.

/// A file with its text.
struct NamedText {
  std::string file;
  std::string text;
};

/// Returns true if the text is a file of Primus: the schedule dump of a rank, or the config.json beside it.
bool is_primus(std::string_view text);

/// Reads the schedule dumps that Primus wrote, one for each rank. Without config.json, each rank counts as
/// one stage. Errors have the form "FILE: expected ..., got ...".
tl::expected<RecordedRows, std::string> read_primus(const std::vector<NamedText>& files);

// Reads traces of PyTorch's profiler (Kineto). There is one file for each rank.

/// A block of operators in a rank's trace that form one forward or backward pass. Blocks are used if the
/// trace does not name its actions.
struct TraceBlock {
  bool is_backward = false;
  Ns start_ns = 0;
  Ns end_ns = 0;
  /// Sequence numbers of the block's operators; a backward pass has the same ones as its forward pass.
  std::vector<std::int64_t> sequence_numbers{};
};

/// The division of a GPU's time into three parts: computation, exposed communication, and idle time. Their
/// sum is the window.
struct GpuWindow {
  Ns window_ns = 0;         ///< time from the start of the first kernel to the end of the last one
  Ns compute_ns = 0;        ///< time in which at least one kernel computes
  Ns exposed_ns = 0;        ///< time in which a kernel communicates and none computes
  Ns idle_ns = 0;           ///< time in which no kernel runs
  Ns communication_ns = 0;  ///< time in which a kernel communicates
};

/// The contents of the trace of one rank.
struct RankTrace {
  std::int64_t rank = 0;
  std::vector<RecordedRow> rows;   ///< actions of the ranges "PP:0F0"; empty if the trace has none
  std::vector<TraceBlock> blocks;  ///< blocks of operators; used if there are no ranges
  std::optional<GpuWindow> gpu{};
  std::int64_t world_size = 0;  ///< number of ranks of the job; 0 if the trace does not state it
};

/// Returns one line about the use of a rank's GPU: computation, exposed communication, and idle time.
std::string gpu_text(std::int64_t rank, const GpuWindow& window);

/// Returns true if the text is a trace of PyTorch's profiler (Kineto).
bool is_kineto(std::string_view text);

/// Reads the trace of one rank. The rank's number is in `distributedInfo`, or else follows the word "rank"
/// in the name of the file. Errors have the form "FILE: expected ..., got ...".
tl::expected<RankTrace, std::string> read_kineto(std::string_view text, std::string_view file);

/// Joins the traces of all ranks into one table of rows. Blocks become actions. Then rank r holds stage r,
/// even if the job has more ranks than there are traces. A backward pass gets the microbatch of the forward
/// pass with the same sequence numbers.
tl::expected<RecordedRows, std::string> joined_traces(std::vector<RankTrace> traces);

/// Returns the number that follows the word "rank" in the name of a file, such as 3 in
/// "trace_rank_3.json.gz". Returns nothing if there is none.
std::optional<std::int64_t> rank_in_name(std::string_view file);

// Reads reports of Nsight Systems (nsys export --type sqlite). There is one file for each rank.

/// Returns true if a file begins as SQLite files do.
bool is_sqlite(std::string_view bytes);

/// Reads the report of one rank. The rank's number follows the word "rank" in the name of the file. The error
/// is "FILE: expected ..., got ...".
tl::expected<RankTrace, std::string> read_nsys(std::string_view bytes, std::string_view file);

// The events of a profiler trace that Penstock reads: ranges of actions, operators of the host, calls that
// launch kernels, and kernels.

struct TraceEvent {
  Ns start_ns = 0;
  Ns end_ns = 0;
  std::int64_t thread = -1;
  std::int64_t correlation = -1;  ///< joins a kernel with the call that launched it; -1 if absent
  std::int64_t sequence = -1;     ///< joins an operator with its backward pass; -1 if absent
  bool communicates = false;
  bool receives = false;
  bool is_backward = false;
};

/// A marked range in the host's part of a trace. Its name is that of an action or of an overlapped group.
struct ActionRange {
  TraceEvent event;
  std::vector<Action> actions;
};

struct TraceEvents {
  std::vector<ActionRange> ranges;
  std::vector<std::pair<TraceEvent, std::int64_t>> steps;  ///< "ProfilerStep#3" with its number
  std::vector<TraceEvent> operators;
  std::vector<TraceEvent> launches;
  std::vector<TraceEvent> kernels;
};

/// Adds an event of the host. Its name decides if it is a range or an operator.
void add_host_event(TraceEvents& events, TraceEvent event, std::string_view name);
/// Adds a kernel of a GPU. Its name decides if it communicates or computes.
void add_kernel(TraceEvents& events, TraceEvent kernel, std::string_view name);

/// Returns the trace of a rank. It has a row for each range of an action. If the trace has no such ranges, it
/// has blocks instead.
RankTrace rank_trace_of(TraceEvents events, std::int64_t rank);

/// Adds `by_ns` to the times of all events.
void move_times(TraceEvents& events, Ns by_ns);

/// Returns the blocks of forward and backward operators between two communications. If the operators
/// launched kernels, a block lasts from the start of its first kernel to the end of its last one.
std::vector<TraceBlock> blocks_of(TraceEvents& events);

// Reads dumps of PyTorch's flight recorder. A dump says which operations a rank has posted to its process
// groups, and which of them have completed. autopsy.hpp finds the pipeline action that is missing.

/// One SEND or RECV that a rank posted.
struct PostedMessage {
  bool is_send = false;
  std::int64_t peer = 0;  ///< the other rank, by its number in the job
  bool completed = false;
  std::string sizes;  ///< sizes of the tensor, as text
};

/// One collective that a rank posted.
struct PostedCollective {
  std::string group;
  std::int64_t sequence = 0;
  std::string name;
  bool completed = false;
};

/// The flight recorder's dump of one rank. Entries are in the order in which the rank posted them.
struct RankDump {
  std::int64_t rank = 0;
  bool lost_beginning = false;  ///< true if the ring buffer has dropped its first entries
  /// Ranks in the process group of its messages, by their numbers in the job; empty if not stated.
  std::vector<std::int64_t> group{};
  std::vector<PostedMessage> messages{};
  std::vector<PostedCollective> collectives{};
};

/// Returns true if the text is a dump of PyTorch's flight recorder, as JSON or as a pickle.
bool is_flight_recorder(std::string_view text);

/// Reads the dump of one rank. The rank's number follows the word "rank" in the name of the file, as in
/// "nccl_trace_rank_3". A dump is JSON, or a pickle of protocol 2 as torch writes it. A pickle is never
/// executed: only dicts, lists, tuples, texts, numbers, bools and None are read, and anything else is an
/// error.
tl::expected<RankDump, std::string> read_flight_recorder(std::string_view text, std::string_view file);

}  // namespace penstock
