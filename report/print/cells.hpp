#pragma once

#include <cstdint>
#include <string>

#include "report/print/table.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

// Functions that make the cells of a table. The text is written by units.hpp; the value is the exact figure,
// by which the column is sorted: {"1.5 ms", 1500000}, {"12.5 %", 0.125}. A text has no value and is sorted as
// text.

Cell text_cell(std::string text);
Cell count_cell(std::int64_t count);
Cell duration_cell(Ns duration_ns);
/// Returns a cell for a mean or a period, which may be a fraction of a nanosecond. One that is too long for a
/// duration is shown as the longest duration.
Cell period_cell(double period_ns);
Cell bytes_cell(Bytes bytes);
/// Returns a cell for a part of one, shown in per cent.
Cell percent_cell(double part);
/// Returns a cell for a number per second.
Cell rate_cell(double rate);
/// Returns a cell for a number of things that may be a fraction.
Cell quantity_cell(double quantity);

}  // namespace penstock
