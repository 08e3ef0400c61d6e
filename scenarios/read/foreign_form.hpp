#pragma once
// Recognises files that are not scenarios although the user gave them as one, and tells what to give instead.

#include <string>
#include <string_view>

#include "scenarios/read/document.hpp"

namespace penstock {

/// Returns a description of a file that is not text, such as "a file that gzip has compressed; unpack it
/// first". Returns an empty text if the file is text.
std::string_view binary_form(std::string_view bytes);

/// Returns a sentence about a text that is TOML, a shell script or Python. Returns an empty text for all
/// others, also for a text that begins like YAML.
std::string foreign_text(std::string_view text);

/// Returns a sentence that names the program to which a configuration belongs, and the flags that take its
/// figures. Returns an empty text if no key identifies a program.
std::string foreign_configuration(const Node& document);

}  // namespace penstock
