#pragma once
// Messages of several lines, shortened where there is room for one: in a cell of a table or a line of a
// report.

#include <string>
#include <string_view>

namespace penstock {

/// Returns the first line of a text. If it ends in ':', the lines of the list below it follow, separated by
/// "; ": "hangs:\n a waits for b\n b waits for a" is "hangs: a waits for b; b waits for a". Otherwise all
/// further lines, such as a picture, are left out.
std::string in_one_line(std::string_view text);

}  // namespace penstock
