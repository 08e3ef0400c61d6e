
#include "report/print/one_line.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {
namespace {

/// Removes the first line from `text`. Returns that line without its leading blanks.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return line;
}

}  // namespace

std::string in_one_line(std::string_view text) {
  std::string joined(take_line(text));
  if (!joined.ends_with(':')) return joined;
  while (!text.empty()) {
    joined += joined.ends_with(':') ? " " : "; ";
    joined += take_line(text);
  }
  return joined;
}

}  // namespace penstock
