// Escapes names that a user typed. Messages about files are made in many places, deep in the readers, and
// repeat a name as it was given or as part of another one. So the names are searched in the finished message.
// An argument is split at slashes and equal signs, because only its parts appear unchanged in other names.

#include "cli/typed_names.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "text/escaping.hpp"

namespace penstock {
namespace {

/// Replaces all occurrences. It continues after the inserted text, so that it ends even if `to` contains
/// `from`.
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
      // Most names need no escaping.
      if (shown != name) replace_all(message, name, shown);
    }
  }
  return message;
}

}  // namespace penstock
