// Writes a Result as CSV and as a trace for viewers such as Perfetto. Figures and spans are written
// unchanged.

#include "report/result/result_json.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/compile.h>
#include <fmt/format.h>

#include "report/print/memory_category.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"

namespace penstock {

void write_timeline_csv(const Timeline& timeline, const TextSink& sink) {
  LineBuffer lines(sink);
  lines.text() = "rank,action,stage,microbatch,replica,weight_version,start_ns,end_ns\n";
  for (const Span& span : timeline.spans) {
    const Action& action = span.action;
    const std::string microbatch = has_microbatch(action.kind) ? std::to_string(action.microbatch) : "";
    fmt::format_to(std::back_inserter(lines.text()), FMT_COMPILE("{},{},{},{},{},{},{},{}\n"), span.rank,
                   to_text(action), action.stage, microbatch, span.replica, action.weight_version,
                   span.start_ns, span.end_ns);
    if (!lines.end_line()) return;
  }
  lines.flush();
}

std::string ranks_to_csv(const Result& result) {
  std::string csv = "rank,device";
  for (const RankFigure& figure : figures_of_ranks()) csv += fmt::format(",{}", figure.key);
  csv += ",capacity_bytes,usable_bytes,out_of_memory";
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    csv += fmt::format(",peak_{}", to_text(static_cast<MemoryCategory>(i)));
  }
  csv += '\n';
  for (const RankReport& rank : result.ranks) {
    const RankMemory& memory = rank.memory;
    const auto shown = [&](Bytes amount) {
      return memory.unit == MemoryUnit::bytes ? fmt::to_string(amount)
                                              : shortest_number(shown_amount(amount, memory.unit));
    };
    csv += fmt::format("{},{}", rank.rank, csv_field(rank.device));
    for (const RankFigure& figure : figures_of_ranks()) {
      const std::int64_t value = figure.get(rank);
      csv += fmt::format(",{}", figure.unit == FigureUnit::memory ? shown(value) : fmt::to_string(value));
    }
    csv += fmt::format(",{},{},{}", memory.capacity ? shown(*memory.capacity) : "",
                       memory.capacity ? shown(*memory.usable()) : "", memory.out_of_memory());
    for (const Bytes peak : memory.peaks) csv += fmt::format(",{}", shown(peak));
    csv += '\n';
  }
  return csv;
}

// Writes the trace event format of chrome://tracing and Perfetto. "X" events have a start and a duration in
// microseconds. "M" events name processes and threads. "C" events give the memory that a rank holds. "s" and
// "f" events are the ends of an arrow from a SEND to its RECV.
//
//   process  rank 0
//     thread compute       |F0|F1|  |B0|
//     thread send             |SEND_F0|
//     thread send 2              |SEND_F1|        a second thread, because spans of one must not overlap
//
// pid is the rank. tid is the number of the row times kLanesPerRow plus the lane, so that viewers sort
// threads by row and then by lane. Tested by chrome_trace_test.cpp.

namespace {

constexpr std::size_t kLanesPerRow = 1000;
constexpr std::array<std::string_view, 4> kRowNames = {"compute", "send", "receive", "collective"};

/// The end of an arrow, at the RECV of a message. Viewers draw an arrow only if its start comes first, so
/// all ends are written after the spans.
struct ArrowEnd {
  std::int64_t message = 0;
  std::int32_t rank = 0;
  std::size_t tid = 0;
  Ns time_ns = 0;
};

/// Returns a number that identifies a message: a SEND and its RECV have the same number, and no other
/// message has it. `stages` is larger than every stage number.
std::int64_t message_of(const Action& transfer, std::int64_t stages) {
  const bool sends = is_send(transfer.kind);
  const std::int64_t from = sends ? transfer.stage : transfer.peer;
  const std::int64_t to = sends ? transfer.peer : transfer.stage;
  const bool is_forward =
      transfer.kind == ActionKind::send_forward || transfer.kind == ActionKind::recv_forward;
  return ((transfer.microbatch * stages + from) * stages + to) * 2 + (is_forward ? 0 : 1);
}

/// Returns a number that is larger than each stage number in the timeline.
std::int64_t stages_above(const Timeline& timeline) {
  std::int64_t stages = 1;
  for (const Span& span : timeline.spans)
    stages = std::max({stages, std::int64_t{span.action.stage} + 1, std::int64_t{span.action.peer} + 1});
  return stages;
}

std::string microseconds(Ns ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

/// A writer of trace events. Each event has its own line, and commas separate events.
class TraceText {
 public:
  explicit TraceText(const TextSink& sink) : lines_(sink) {
    lines_.text() = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  }

  /// Returns true as long as the sink accepts further text.
  bool is_wanted() const { return is_wanted_; }

  /// Adds an event. The line of an event ends when the next event begins, so only earlier lines are passed to
  /// the sink.
  void add(std::string_view event) {
    lines_.text() += std::exchange(separator_, ",\n");
    is_wanted_ = lines_.end_line();
    lines_.text() += event;
  }

  /// Adds an event that gives a name to a process ("process_name") or to one of its threads
  /// ("thread_name").
  void add_name(std::string_view what, std::int32_t pid, std::size_t tid, std::string_view name) {
    add(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, pid, tid,
                    json_quoted(name)));
  }

  /// Adds an event that sets the position of a process or thread in the viewer's list.
  void add_order(std::string_view what, std::int32_t pid, std::size_t tid, std::size_t order) {
    add(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", what, pid,
                    tid, order));
  }

  /// Adds one end of an arrow: its start (phase "s") or its finish ("f"). It belongs to the span of this
  /// thread at this time.
  void add_arrow(std::string_view phase, const ArrowEnd& end) {
    add(fmt::format(
        R"({{"ph":"{}","name":"message","cat":"message","id":{},"pid":{},"tid":{},"ts":{},"bp":"e"}})", phase,
        end.message, end.rank, end.tid, microseconds(end.time_ns)));
  }

  void finish() {
    lines_.text() += "\n]}\n";
    lines_.flush();
  }

 private:
  LineBuffer lines_;
  const char* separator_ = "\n";
  bool is_wanted_ = true;
};

/// Returns the details that the viewer shows for a selected span.
std::string span_arguments(const Action& action) {
  std::string arguments = fmt::format(R"("stage":{})", action.stage);
  if (has_microbatch(action.kind)) arguments += fmt::format(R"(,"microbatch":{})", action.microbatch);
  if (is_compute(action.kind)) arguments += fmt::format(R"(,"weight_version":{})", action.weight_version);
  if (is_transfer(action.kind)) arguments += fmt::format(R"(,"peer_stage":{})", action.peer);
  return arguments;
}

void add_span(TraceText& trace, const Span& span, std::size_t tid) {
  trace.add(fmt::format(
      R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
      to_text(span.action), letters(span.action.kind), span.rank, tid, microseconds(span.start_ns),
      microseconds(span.end_ns - span.start_ns), span_arguments(span.action)));
}

/// The data from which the arrows of a trace are drawn. An arrow leads from each SEND to its RECV.
struct Arrows {
  std::int64_t stages = 1;  ///< larger than the number of every stage
  std::vector<ArrowEnd> ends{};
};

/// Adds the start of a SEND's arrow to the trace, or stores the end of a RECV's arrow in `arrows`. The end
/// lies in the last nanosecond of the RECV, so that it comes after the start.
void add_arrow(TraceText& trace, const Span& span, std::size_t tid, Arrows& arrows) {
  if (!is_transfer(span.action.kind)) return;
  ArrowEnd end{.message = message_of(span.action, arrows.stages), .rank = span.rank, .tid = tid};
  if (is_send(span.action.kind)) {
    end.time_ns = span.start_ns;
    trace.add_arrow("s", end);
  } else {
    end.time_ns = std::max(span.start_ns, span.end_ns - 1);
    arrows.ends.push_back(end);
  }
}

/// Adds the spans of one row of a rank. Spans that overlap are in different lanes. Each lane is a thread,
/// which gets its name with its first span.
void add_row(TraceText& trace, std::size_t row, Spans spans, Arrows& arrows) {
  const std::vector<std::int32_t> lanes = lanes_of(spans);
  std::set<std::int32_t> named;
  for (std::size_t i = 0; i < spans.size() && trace.is_wanted(); ++i) {
    const std::size_t tid = row * kLanesPerRow + static_cast<std::size_t>(lanes[i]);
    if (named.insert(lanes[i]).second) {
      const std::string suffix = lanes[i] == 0 ? "" : fmt::format(" {}", lanes[i] + 1);
      trace.add_name("thread_name", spans[i].rank, tid, std::string(kRowNames[row]) + suffix);
      trace.add_order("thread_sort_index", spans[i].rank, tid, tid);
    }
    add_span(trace, spans[i], tid);
    add_arrow(trace, spans[i], tid, arrows);
  }
}

/// Adds the spans of one rank, row by row.
void add_rows(TraceText& trace, Spans of_rank, Arrows& arrows) {
  std::array<std::vector<Span>, kRowNames.size()> rows;
  for (const Span& span : of_rank) rows[static_cast<std::size_t>(row_of(span.action.kind))].push_back(span);
  for (std::size_t row = 0; row < rows.size(); ++row) add_row(trace, row, rows[row], arrows);
}

/// Adds the memory of a rank as a counter. Each value is valid until the next sample.
void add_memory(TraceText& trace, const RankReport& rank) {
  for (const MemorySample& sample : rank.memory.samples) {
    if (!trace.is_wanted()) return;
    std::string series;
    for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
      // A category that the rank never holds is left out, because it would only fill the legend. The peaks
      // are checked and not the sample, so that all samples have the same categories.
      if (rank.memory.peaks[i] == 0) continue;
      const std::string_view separator = series.empty() ? "" : ",";
      fmt::format_to(std::back_inserter(series), R"({}"{}":{})", separator,
                     to_text(static_cast<MemoryCategory>(i)),
                     shortest_number(shown_amount(sample.bytes[i], rank.memory.unit)));
    }
    if (series.empty()) return;
    const std::string_view name =
        rank.memory.unit == MemoryUnit::bytes ? "memory (bytes)" : "memory (activations)";
    trace.add(fmt::format(R"({{"ph":"C","name":"{}","pid":{},"ts":{},"args":{{{}}}}})", name, rank.rank,
                          microseconds(sample.time_ns), series));
  }
}

}  // namespace

void write_chrome_trace(const Result& result, const TextSink& sink) {
  TraceText trace(sink);
  for (const RankReport& rank : result.ranks) {
    const std::string device = rank.device.empty() ? "" : fmt::format(" ({})", rank.device);
    trace.add_name("process_name", rank.rank, 0, fmt::format("rank {}{}", rank.rank, device));
    trace.add_order("process_sort_index", rank.rank, 0, static_cast<std::size_t>(rank.rank));
  }
  Arrows arrows{.stages = stages_above(result.timeline)};
  for (const Spans of_rank : spans_by_rank(result.timeline)) add_rows(trace, of_rank, arrows);
  for (const ArrowEnd& end : arrows.ends) {
    if (!trace.is_wanted()) break;
    trace.add_arrow("f", end);
  }
  for (const RankReport& rank : result.ranks) add_memory(trace, rank);
  trace.finish();
}

}  // namespace penstock
