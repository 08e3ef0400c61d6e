#pragma once
// The form of a file, derived from the end of its name.

#include <string_view>

namespace penstock {

/// Returns true if `name` ends in `suffix` (such as ".csv"), in capital or small letters.
bool has_file_suffix(std::string_view name, std::string_view suffix);

/// Returns true for names of program files, which end in .psched or .csv.
bool names_program(std::string_view file);

}  // namespace penstock
