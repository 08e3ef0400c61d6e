// Selects the reader of a file by the suffix of its name, in capital or small letters. The content does not
// decide, so that a broken file gets the messages of the intended format.

#include "scenarios/read/file_suffix.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace penstock {

bool has_file_suffix(std::string_view name, std::string_view suffix) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return name.size() >= suffix.size() &&
         std::ranges::equal(name.substr(name.size() - suffix.size()), suffix, same);
}

bool names_program(std::string_view file) {
  return has_file_suffix(file, ".psched") || has_file_suffix(file, ".csv");
}

}  // namespace penstock
