#pragma once
// Files that are given in place of a scenario and are something else: what they are, and what to give
// instead.

#include <string>
#include <string_view>

#include "scenarios/read/document.hpp"

namespace penstock {

/// Returns what a file is that is no text, for a message: "a file that gzip has compressed; unpack it first".
/// Empty: it is text.
std::string_view binary_form(std::string_view bytes);

/// Returns what a text is that is neither YAML nor JSON, as a sentence: TOML, a shell script or Python.
/// Empty: none of these. A text that begins as YAML does is none of these.
std::string foreign_text(std::string_view text);

/// Returns which program's configuration the document is, and how its figures are given as flags, as a
/// sentence. Empty: it has no key that tells.
std::string foreign_configuration(const Node& document);

}  // namespace penstock
