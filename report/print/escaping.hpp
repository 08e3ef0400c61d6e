#pragma once
// The one place where text is made safe for terminals, XML and HTML, JSON and CSV.

#include <string>
#include <string_view>

namespace penstock {

/// For terminals and logs: control characters, and marks that turn the direction of writing, are shown as
/// "\x1b" instead of sent; bytes that are not UTF-8 become U+FFFD. Line ends, tabs and colours (ESC [ .. m)
/// stay.
/// True where nothing has to be changed for that, nor for a runner of jobs, which obeys lines that begin with
/// "::": printable ASCII and line ends, no two colons. Quick, for long texts.
bool is_plain(std::string_view text);
std::string shown_text(std::string_view text);

/// For text and double-quoted attributes of XML, SVG and HTML. Control characters that XML forbids become
/// '?', bytes that are not UTF-8 U+FFFD.
std::string xml_escaped(std::string_view text);
/// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);
/// A CSV field (RFC 4180): quoted where it holds a comma, a quote or a line break. What is no number and
/// begins as a formula of spreadsheets does (= + - @) gets an apostrophe before it, which makes it text
/// there.
std::string csv_field(std::string_view text);

}  // namespace penstock
