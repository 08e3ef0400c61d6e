#pragma once
// Writes a Result for other programs: as CSV (RFC 4180, with a heading and \n line ends) for spreadsheets and
// scripts, and as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing. result_json.hpp has the form
// that Penstock reads again.

#include <string>

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"

namespace penstock {

/// Writes a CSV with one line for each span:
/// rank,action,stage,microbatch,replica,weight_version,start_ns,end_ns. The microbatch is empty if the
/// action belongs to a whole stage.
void write_timeline_csv(const Timeline& timeline, const TextSink& sink);

/// Returns a CSV with one line for each rank. The columns are the keys of `ranks` in the JSON document,
/// then capacity_bytes and out_of_memory. The peak of each category follows as peak_CATEGORY.
std::string ranks_to_csv(const Result& result);

/// Writes the trace in the JSON "Trace Event Format". Each rank is a process with the rows compute, send,
/// receive and collective. Spans that overlap in time get further rows, for example "compute 2" for the
/// second action of an overlapped pair. Times are in microseconds with three decimals, so that no
/// nanosecond is lost. An arrow goes from each SEND to its RECV. The memory of a rank is a counter with one
/// series for each category. Its unit is bytes, or activations if the scenario states no sizes.
void write_chrome_trace(const Result& result, const TextSink& sink);

}  // namespace penstock
