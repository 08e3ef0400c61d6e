#pragma once
// What the end of a file's name says of its form.

#include <string_view>

namespace penstock {

/// True when `name` ends in `suffix` (".csv"), in capital or small letters.
bool has_file_suffix(std::string_view name, std::string_view suffix);

/// True for the names of program files: they end in .psched or .csv.
bool names_program(std::string_view file);

}  // namespace penstock
