#pragma once
// Reads events.csv, the format in which any runtime can record its actions. Each row has one action:
//
//     step,copy,rank,action,start_us,end_us
//     23,0,0,0F0,48926,112385
//     23,0,0,0SEND_F0,112387,112767
//
// `step` and `copy` may be left out. In place of `action` there may be `kind`, `stage` and `microbatch`. The
// unit of the times is in the header: ns, us, ms or s.

#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "sim/autopsy/recording.hpp"

namespace penstock {

/// The rows that were read from one or several files, and notes on rows that were left out.
struct RecordedRows {
  std::vector<RecordedRow> rows;
  std::vector<std::string> notes;
};

/// Reads a table of events. Leaves out rows whose action is a word, such as "optimizer", and counts them in
/// a note. Errors have the form "FILE:LINE: expected ..., got ...".
tl::expected<RecordedRows, std::string> read_events(std::string_view text, std::string_view file);

/// Returns a recording in the form of events.csv, with times in nanoseconds. read_events() reads the same
/// recording from it.
std::string events_to_csv(const Recording& recording);

}  // namespace penstock
