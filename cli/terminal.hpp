#pragma once
// The width and the colours of the terminal on which answers are shown.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/print/palette.hpp"

namespace penstock {

/// Returns the value of an environment variable; empty if it is not set.
std::string environment(const char* name);

/// Returns COLUMNS, or the width of the terminal on standard output. Returns nothing if there is no terminal
/// and COLUMNS is not set.
std::optional<std::int32_t> terminal_columns();

/// Returns the width for tables; 0 (unlimited) without a terminal.
std::size_t table_width();

/// The environment variables that describe a terminal.
struct TerminalDescription {
  std::string term;       ///< TERM
  std::string colorterm;  ///< COLORTERM
};
/// Returns the colours that the terminal shows. 24 bits if COLORTERM is "truecolor" or "24bit", or TERM ends
/// in "-direct"; 256 if TERM contains "256color"; none if TERM is "dumb" or not set; otherwise 16.
TerminalColours colours_of(const TerminalDescription& terminal);

/// Returns the colours to use. `when` is "auto", "always" or "never". With "auto" there are none if there is
/// no terminal or NO_COLOR is not empty. With "always" there are at least 16.
TerminalColours wanted_colours(std::string_view when);

}  // namespace penstock
