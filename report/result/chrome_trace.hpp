#pragma once
// A Result as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing: the JSON "Trace Event Format".

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// One process a rank; its rows are compute, send, receive and collective. A row is split where its spans
/// overlap in time: the second leaf of an overlapped pair has the row "compute 2". Times are microseconds
/// with three decimals, so that they keep every nanosecond. Memory is a counter with a series a category.
void write_chrome_trace(const Result& result, const TextSink& sink);

}  // namespace penstock
