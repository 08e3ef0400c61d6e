#pragma once
// Reads events.csv, the form in which any runtime can record its actions: one row an action.
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

/// The rows of one or several files, and notes on what was left out.
struct RecordedRows {
  std::vector<RecordedRow> rows;
  std::vector<std::string> notes;
};

/// Reads a table of events. Rows whose action has a name of letters, such as "optimizer", are left out, and a
/// note counts them. The error is "FILE:LINE: expected ..., got ...".
tl::expected<RecordedRows, std::string> read_events(std::string_view text, std::string_view file);

/// Writes a recording in this form, with times in nanoseconds. read_events() reads the same recording from
/// it.
std::string events_to_csv(const Recording& recording);

}  // namespace penstock
