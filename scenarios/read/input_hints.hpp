#pragma once
// Hints for input that Penstock does not accept, such as files of other programs and unknown device names.
// A hint says what the user gave and what to give instead.

#include <cstdint>
#include <string>
#include <string_view>

#include "scenarios/read/document.hpp"

namespace penstock {

/// Returns a description of a file that is not text, such as "a file that gzip has compressed; unpack it
/// first". Returns an empty text if the file is text.
std::string_view binary_form(std::string_view bytes);

/// The language of a text, recognised by its first statement.
enum class TextForm : std::uint8_t {
  other,  // YAML, JSON, a program of Penstock, or anything else
  shell,  // a shell script, or flags of a command
  toml,
  python,
};

/// Returns the language of a text.
TextForm text_form(std::string_view text);

/// Returns a sentence about a text that is TOML, a shell script or Python. Returns an empty text for all
/// other texts.
std::string foreign_text(std::string_view text);

/// Returns a sentence about a configuration of another program. It names that program and the flags of
/// Penstock that accept the same figures. Returns an empty text if no key identifies a program.
std::string foreign_configuration(const Node& document);

// The error message for a device with an unknown name.

/// Returns the error message for a device that is not in device_types(). The message lists the known names.
/// If `name` contains a known name, the message suggests this name. Otherwise it explains how to describe a
/// device.
std::string unknown_device(std::string_view name);

}  // namespace penstock
