#pragma once
// A Result as CSV (RFC 4180, with a heading and "\n" line ends) for spreadsheets and scripts.

#include <string>

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"

namespace penstock {

/// Writes a line for each span: rank,action,stage,microbatch,replica,weight_version,start_ns,end_ns. The
/// microbatch is empty for an action that belongs to a whole stage.
void write_timeline_csv(const Timeline& timeline, const TextSink& sink);

/// Returns a line for each rank: the keys of `ranks` in the JSON document, then capacity_bytes and
/// out_of_memory, then each category's own peak as peak_CATEGORY.
std::string ranks_to_csv(const Result& result);

}  // namespace penstock
