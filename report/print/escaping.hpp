#pragma once
// The one place where text is made safe for terminals, XML and HTML, JSON, CSV and Markdown.

#include <string>
#include <string_view>

namespace penstock {

/// Whether shown_text() would leave the text as it is, and a runner of jobs, which obeys lines that begin
/// with "::" and hold "##[", too: printable ASCII and line ends, no two colons nor "##". Quick, for long
/// texts.
bool is_plain(std::string_view text);
/// For terminals and logs: control characters, and marks that turn the direction of writing, are shown as
/// "\x1b" or "\u202e" instead of sent; bytes that are not UTF-8 become U+FFFD. Line ends, tabs and colours
/// (ESC [ .. m) stay; what is JSON stays JSON.
std::string shown_text(std::string_view text);
/// For messages of several lines and for files of text, JSON and Markdown: the same, and colours are shown,
/// too.
std::string shown_message(std::string_view text);
/// For a name within a line, a cell or a sentence: the same, and line ends, tabs and colours are shown, too.
std::string shown_name(std::string_view text);
/// A name as text of Markdown, in a cell of a table too: no line end, tag, link or emphasis.
std::string markdown_escaped(std::string_view text);

/// Whether JSON can hold the text and give it back as it was: false where some bytes are no UTF-8.
bool is_utf8(std::string_view text);

/// What XML can hold: control characters that it forbids become '?', bytes that are not UTF-8 U+FFFD.
std::string xml_text(std::string_view text);
/// The same for text and double-quoted attributes of XML, SVG and HTML, with entities for their marks.
std::string xml_escaped(std::string_view text);
/// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);
/// A CSV field (RFC 4180): as shown_message() has it, quoted where it holds a comma, a quote or a line break.
/// What is no number and begins as a formula of spreadsheets does (= + - @) gets an apostrophe before it,
/// which makes it text there.
std::string csv_field(std::string_view name);

}  // namespace penstock
