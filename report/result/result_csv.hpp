#pragma once
// A Result as CSV (RFC 4180, a heading, "\n" line ends) for spreadsheets and scripts.

#include <string>

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"

namespace penstock {

/// A line a span: rank,action,stage,microbatch,replica,weight_version,start_ns,end_ns. The microbatch of
/// an action that belongs to a whole stage is empty.
void write_timeline_csv(const Timeline& timeline, const TextSink& sink);

/// A line a rank: the keys of the JSON document's `ranks`, then capacity_bytes and out_of_memory, then each
/// category's own peak as peak_CATEGORY.
std::string ranks_to_csv(const Result& result);

}  // namespace penstock
