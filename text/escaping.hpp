#pragma once
// Names and messages made safe for each format of output: terminals, XML, JSON, CSV and Markdown. Long
// messages are shortened to one line.

#include <string>
#include <string_view>

namespace penstock {

/// Returns true if a text can be printed unchanged: it has only printable ASCII and line ends, and neither
/// "::" nor "##". CI runners obey lines that begin with "::" or hold "##[". The check is quick even for long
/// texts.
bool is_plain(std::string_view text);
/// Returns the text as terminals and logs show it safely. Control characters and marks that change the
/// direction of writing are written as "\x1b" or "\u202e". Bytes that are not UTF-8 become U+FFFD. Line ends,
/// tabs and colours (ESC [ .. m) stay, and JSON stays JSON.
std::string shown_text(std::string_view text);
/// Returns the same as shown_text(), with colours escaped too. It serves messages of several lines and files
/// of text, JSON and Markdown.
std::string shown_message(std::string_view text);
/// Returns the same as shown_text(), with line ends, tabs and colours escaped too. It serves names within a
/// line, a cell or a sentence.
std::string shown_name(std::string_view text);
/// Returns a name as plain text of Markdown, without line ends, tags, links or emphasis. The result may stand
/// in a cell of a table.
std::string markdown_escaped(std::string_view text);

/// Returns true if the text is valid UTF-8. JSON can hold only such a text without changing it.
bool is_utf8(std::string_view text);

/// Returns the text as XML can hold it: forbidden control characters become '?', bytes that are not UTF-8
/// become U+FFFD.
std::string xml_text(std::string_view text);
/// Returns the same as xml_text(), with entities for XML's marks, for text and double-quoted attributes of
/// XML, SVG and HTML.
std::string xml_escaped(std::string_view text);
/// Returns a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);
/// Returns a field of CSV (RFC 4180). Control characters are escaped as in shown_message(); the field is
/// quoted if it has a comma, a quote or a line break. A text that spreadsheets would run as a formula (= + -
/// @) gets an apostrophe in front.
std::string csv_field(std::string_view name);

// Shortens messages of several lines where there is room for only one line, such as a table cell.

/// Returns the first line of a text. If it ends in ':', the list lines below it are added, separated by "; ".
/// For example, "hangs:\n a waits for b\n b waits for a" becomes "hangs: a waits for b; b waits for a". All
/// other lines, such as a picture, are left out.
std::string in_one_line(std::string_view text);

}  // namespace penstock
