#pragma once
// The one place where text is made safe for XML and HTML, JSON and CSV.

#include <string>
#include <string_view>

namespace penstock {

/// For text and double-quoted attributes of XML, SVG and HTML. Control characters that XML forbids become
/// '?'.
std::string xml_escaped(std::string_view text);
/// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);
/// A CSV field (RFC 4180): quoted where it holds a comma, a quote or a line break.
std::string csv_field(std::string_view text);

}  // namespace penstock
