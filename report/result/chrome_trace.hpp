#pragma once
// Writes a Result as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing. The format is the JSON
// "Trace Event Format".

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// Writes the trace. Each rank is a process with the rows compute, send, receive and collective. Spans that
/// overlap in time get further rows, for example "compute 2" for the second action of an overlapped pair.
/// Times are in microseconds with three decimals, so that no nanosecond is lost. Memory is a counter with one
/// series per category.
void write_chrome_trace(const Result& result, const TextSink& sink);

}  // namespace penstock
