#pragma once
// Writes a Result as CSV for spreadsheets and scripts. The format is RFC 4180 with a heading and "\n" line
// ends.

#include <string>

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"

namespace penstock {

/// Writes one line per span: rank,action,stage,microbatch,replica,weight_version,start_ns,end_ns. The
/// microbatch is empty if the action belongs to a whole stage.
void write_timeline_csv(const Timeline& timeline, const TextSink& sink);

/// Returns one line per rank. The columns are the keys of `ranks` in the JSON document, then capacity_bytes
/// and out_of_memory, then the peak of each category as peak_CATEGORY.
std::string ranks_to_csv(const Result& result);

}  // namespace penstock
