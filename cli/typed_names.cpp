// Messages about files are made in many places, deep in the readers of each form, and all of them repeat the
// name as it was given, or as a part of another one: the folder of a file that names a second. So names are
// looked for where messages come out. What an argument is made of, between its slashes and equal signs, stays
// together in whatever is made of it.

#include "cli/typed_names.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "report/print/escaping.hpp"

namespace penstock {
namespace {

/// Goes on behind what was put in, so that it ends also where `to` contains `from`.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

std::string with_names_shown(std::string message, std::span<const char* const> arguments) {
  for (std::string_view rest : arguments) {
    while (!rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find_first_of("/="));
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
      const std::string shown = shown_name(name);
      // Most names are shown as they are: nothing to look for.
      if (shown != name) replace_all(message, name, shown);
    }
  }
  return message;
}

}  // namespace penstock
