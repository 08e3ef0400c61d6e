#pragma once
// Makes names and messages safe for each output format: terminals, XML, JSON, CSV and Markdown. It also
// shortens long messages to one line.

#include <string>
#include <string_view>

namespace penstock {

/// Returns true if a text can be printed unchanged. Such a text has only printable ASCII characters and
/// line ends, and contains neither "::" nor "##". CI runners execute lines that begin with "::" or contain
/// "##[". The check is fast even for long texts.
bool is_plain(std::string_view text);
/// Returns the text in a form that is safe for terminals and logs. Control characters and characters that
/// change the direction of writing become escapes such as "\x1b" or "\u202e". Bytes that are not UTF-8
/// become U+FFFD. Line ends, tabs and colours (ESC [ .. m) are unchanged, and JSON remains valid JSON.
std::string shown_text(std::string_view text);
/// Returns the text in the form of shown_text(), with colours escaped as well. Use it for messages of several
/// lines, and for text, JSON and Markdown files.
std::string shown_message(std::string_view text);
/// Returns the text in the form of shown_text(), with line ends, tabs and colours escaped as well. Use it for
/// a name inside a line, a cell or a sentence.
std::string shown_name(std::string_view text);
/// Returns a name as plain Markdown text without line ends, tags, links or emphasis. A table cell may contain
/// the result.
std::string markdown_escaped(std::string_view text);

/// Returns true if the text is valid UTF-8. JSON can store only valid UTF-8 without changes.
bool is_utf8(std::string_view text);

/// Returns the text in a form that XML allows. Forbidden control characters become '?', and bytes that are
/// not UTF-8 become U+FFFD.
std::string xml_text(std::string_view text);
/// Returns the text in the form of xml_text(), with entities in place of XML's special characters. The result
/// is safe in text and in double-quoted attributes of XML, SVG and HTML.
std::string xml_escaped(std::string_view text);
/// Returns the text as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);
/// Returns the text as a field of CSV (RFC 4180). Control characters are escaped as in shown_message(). The
/// field is quoted if it contains a comma, a quote or a line break. An apostrophe is added in front of a
/// text that spreadsheets would execute as a formula (= + - @).
std::string csv_field(std::string_view name);

// Shortens a message of several lines for a place that has only one line, such as a table cell.

/// Returns the first line of a text. If that line ends in ':', the following list is added, and its entries
/// are separated by "; ". For example, "hangs:
///  a waits for b
///  b waits for a" becomes "hangs: a waits for b; b waits for a". All other lines, such as a picture, are
/// left out.
std::string in_one_line(std::string_view text);

}  // namespace penstock
