#pragma once
// Messages of several lines where there is room for one: a cell of a table, a line of a report.

#include <string>
#include <string_view>

namespace penstock {

/// The first line; where it ends in ':', with the lines of the list that it announces, "; " between them. A
/// picture below a message stays out.
std::string in_one_line(std::string_view text);

}  // namespace penstock
