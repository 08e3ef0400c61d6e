#pragma once
// Escapes the names that a user typed before they appear in messages.

#include <span>
#include <string>

namespace penstock {

/// Returns `message`, in which repeated arguments are escaped as by shown_name(). Thus a line end, a tab or a
/// colour code in a file name or a mistyped flag cannot end a line or hide text.
std::string with_names_shown(std::string message, std::span<const char* const> arguments);

}  // namespace penstock
