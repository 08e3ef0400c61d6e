#pragma once
// Reads numbers with units, as in scenario files and flags: "5 us", "16 MiB", "25 GB/s", "15.7 TFLOP/s". Used
// by reader.hpp and by the command line.

#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns the text without blanks and line breaks at its beginning and end.
std::string_view trimmed(std::string_view text);

/// The functions below read quantities by these rules. Decimal numbers are exact ("0.1 ms" is 100000 ns).
/// Blanks around number and unit are ignored, and "0" needs no unit. `B` is a byte, and `b` or `bit` is a
/// bit. k M G T P are powers of 1000, and Ki Mi Gi Ti Pi are powers of 1024. Errors say what was expected and
/// found, but not the file and line.

/// Reads a time in ns, us, ms, s, min or h, rounded to the nearest nanosecond.
tl::expected<Ns, std::string> parse_duration(std::string_view text);
/// Reads a time in the same units as parse_duration(), and returns it in ns with fractions of a nanosecond.
tl::expected<double, std::string> parse_fine_duration(std::string_view text);
/// Reads a size in B, kB, KiB, ..., rounded to the nearest byte.
tl::expected<Bytes, std::string> parse_bytes(std::string_view text);
/// Reads a rate in B/s, kB/s, KiB/s, b/s, Gbit/s, ... and returns bytes a second, above 0. For "unlimited" it
/// returns infinity.
tl::expected<double, std::string> parse_bandwidth(std::string_view text);
/// Reads a rate in FLOP/s, GFLOP/s, TFLOP/s, ... as floating-point operations a second.
tl::expected<double, std::string> parse_flops(std::string_view text);

/// Returns a duration as text, such as "1.5 ms", "20 us" or "7 ns". The unit is the largest one that needs
/// at most three decimals.
std::string duration_text(Ns duration_ns);

// Hints for input that Penstock does not accept, such as files of other programs and unknown device names.
// A hint says what the user gave and what to give instead.

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

/// Returns the language of a text, judged by its first statement.
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
