#pragma once
// Escapes names that a user typed, in messages about them.

#include <span>
#include <string>

namespace penstock {

/// Returns `message` with the parts that repeat arguments escaped as by shown_name(). A line end, a tab or a
/// colour code in a file's name, or in a mistyped flag, then cannot end a line or hide text.
std::string with_names_shown(std::string message, std::span<const char* const> arguments);

}  // namespace penstock
