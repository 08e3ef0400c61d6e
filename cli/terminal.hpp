#pragma once
// The terminal that answers are read on: how wide it is and which colours it shows.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/print/palette.hpp"

namespace penstock {

/// The value of an environment variable; empty where it is not set.
std::string environment(const char* name);

/// COLUMNS, or the width of the terminal that standard output is. Nothing where that is no terminal and
/// COLUMNS says nothing.
std::optional<std::int32_t> terminal_columns();

/// The same for tables: 0, which is any width, where there is no terminal.
std::size_t table_width();

/// What the environment says of a terminal.
struct TerminalDescription {
  std::string term;       ///< TERM
  std::string colorterm;  ///< COLORTERM
};
/// The colours that it shows: 24 bits where COLORTERM announces them ("truecolor", "24bit") or TERM's name
/// does ("-direct"), 256 where TERM's name does ("256color"), none where TERM is "dumb" or not set, else 16.
TerminalColours colours_of(const TerminalDescription& terminal);

/// Of `when` "auto", "always" or "never": none on what is no terminal and where NO_COLOR is set to something,
/// unless always; then at least 16.
TerminalColours wanted_colours(std::string_view when);

}  // namespace penstock
