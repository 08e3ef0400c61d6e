#pragma once

#include <cstdint>
#include <string>

#include "report/print/table.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

// Cells of tables as units.hpp writes their figures, each sorting as what it says.

Cell text_cell(std::string text);
Cell count_cell(std::int64_t count);
Cell duration_cell(Ns duration_ns);
/// A mean or a period, which need not be whole; what no duration holds is shown as the longest.
Cell period_cell(double period_ns);
Cell bytes_cell(Bytes bytes);
/// A part of one, in per cent.
Cell percent_cell(double part);
/// A second.
Cell rate_cell(double rate);
/// Four digits that count.
Cell quantity_cell(double quantity);

}  // namespace penstock
