#pragma once
// The width and the colours of the terminal on which answers are printed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/print/palette.hpp"

namespace penstock {

/// Returns the value of an environment variable, or an empty text if it is not set.
std::string environment(const char* name);

/// Returns the number in COLUMNS, or the width of the terminal on standard output. Returns nothing if COLUMNS
/// is not set and there is no terminal.
std::optional<std::int32_t> terminal_columns();

/// Returns the longest table line in characters. The result is 0 (no limit) if there is no terminal.
std::size_t table_width();

/// The environment variables that describe the terminal's colours.
struct TerminalDescription {
  std::string term;       ///< the variable TERM
  std::string colorterm;  ///< the variable COLORTERM
};
/// Returns the colours of the terminal. They have 24 bits if COLORTERM is "truecolor" or "24bit", or if TERM
/// ends in "-direct". There are 256 colours if TERM contains "256color", no colours if TERM is "dumb" or not
/// set, and otherwise 16.
TerminalColours colours_of(const TerminalDescription& terminal);

/// Returns the colours to use. `when` is "auto", "always" or "never". With "auto", the result is `none` if
/// there is no terminal or NO_COLOR is not empty. With "always", there are at least 16 colours.
TerminalColours wanted_colours(std::string_view when);

}  // namespace penstock
