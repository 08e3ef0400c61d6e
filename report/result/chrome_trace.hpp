#pragma once
// A Result as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing: the JSON "Trace Event Format".

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// Writes the trace: a process for each rank with the rows compute, send, receive and collective. Spans of a
/// row that overlap in time get further rows; the second leaf of an overlapped pair is on the row "compute
/// 2". Times are microseconds with three decimals, so that no nanosecond is lost. Memory is a counter with a
/// series for each category.
void write_chrome_trace(const Result& result, const TextSink& sink);

}  // namespace penstock
