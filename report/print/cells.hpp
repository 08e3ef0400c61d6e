#pragma once

#include <cstdint>
#include <string>

#include "report/print/table.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

// Functions that make table cells. units.hpp writes the cell's text. The cell's value is the exact figure, by
// which the column is sorted: {"1.5 ms", 1500000}, {"12.5 %", 0.125}. A cell without a value is sorted by its
// text.

Cell text_cell(std::string text);
Cell count_cell(std::int64_t count);
Cell duration_cell(Ns duration_ns);
/// Returns a cell for a mean or a period, which may contain a fraction of a nanosecond. If the period is too
/// long for a duration, the text shows the longest duration.
Cell period_cell(double period_ns);
Cell bytes_cell(Bytes bytes);
/// Returns a cell for a fraction of 1, shown as a percentage.
Cell percent_cell(double part);
/// Returns a cell for a number of events per second.
Cell rate_cell(double rate);
/// Returns a cell for a count that may be a fraction.
Cell quantity_cell(double quantity);

}  // namespace penstock
