#pragma once
// Shortens messages of several lines where there is room for only one line, such as a table cell.

#include <string>
#include <string_view>

namespace penstock {

/// Returns the first line of a text. If it ends in ':', the list lines below it are added, separated by "; ".
/// For example, "hangs:\n a waits for b\n b waits for a" becomes "hangs: a waits for b; b waits for a". All
/// other lines, such as a picture, are left out.
std::string in_one_line(std::string_view text);

}  // namespace penstock
