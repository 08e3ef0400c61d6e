// Finds out what the terminal can show. Terminals have no common query, so programs read the variables TERM
// and COLORTERM. Users set NO_COLOR (no-color.org) to get no colours.

#include "cli/terminal.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/output.hpp"
#include "report/print/palette.hpp"
#include "text/numbers.hpp"

namespace penstock {

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets any
  return value == nullptr ? "" : value;
}

std::optional<std::int32_t> terminal_columns() {
  const auto columns = number_of_text<std::int32_t>(environment("COLUMNS"));
  if (columns && *columns > 0) return columns;
  winsize size{};
  // Shells usually do not export COLUMNS. Then the terminal itself is asked.
  // NOLINTNEXTLINE(misc-include-cleaner): <sys/ioctl.h> has it
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return std::nullopt;
}

std::size_t table_width() { return static_cast<std::size_t>(terminal_columns().value_or(0)); }

TerminalColours colours_of(const TerminalDescription& terminal) {
  const std::string_view term = terminal.term;
  if (term.empty() || term == "dumb") return TerminalColours::none;
  const bool announced = terminal.colorterm == "truecolor" || terminal.colorterm == "24bit";
  // COLORTERM has priority over TERM, because most terminals with 24-bit colours still set TERM to
  // xterm-256color.
  if (announced || term.ends_with("-direct")) return TerminalColours::true_colour;
  return term.find("256color") != std::string_view::npos ? TerminalColours::indexed : TerminalColours::basic;
}

TerminalColours wanted_colours(std::string_view when) {
  const TerminalColours shown =
      colours_of({.term = environment("TERM"), .colorterm = environment("COLORTERM")});
  if (when == "always") return shown == TerminalColours::none ? TerminalColours::basic : shown;
  const bool wanted = when == "auto" && environment("NO_COLOR").empty() && stdout_is_terminal();
  return wanted ? shown : TerminalColours::none;
}

}  // namespace penstock
