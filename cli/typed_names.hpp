#pragma once
// Names that a user typed, in messages about them.

#include <span>
#include <string>

namespace penstock {

/// `message` with what it repeats of the arguments made safe for a line, as by shown_name(): a line end, a
/// tab or a colour in a file's name, or in a word that was taken for a flag, ends no line and hides nothing.
std::string with_names_shown(std::string message, std::span<const char* const> arguments);

}  // namespace penstock
