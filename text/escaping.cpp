// Replaces the characters that an output format forbids. Names of files, layers and devices come from
// users, so they may contain any characters. In XML, the five special characters become entities, and
// control characters become '?' (XML 1.0 forbids them even as entities). The library nlohmann-json writes
// JSON strings. CSV fields are quoted according to RFC 4180. Markdown's special characters become
// entities. A backslash is not used there, because it could form a pair with another backslash. Bytes that
// are not valid UTF-8 (Unicode 15, table 3-7) become U+FFFD in every format. Tested by
// tests/report/units_test.cpp.

#include "text/escaping.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/numbers.hpp"

namespace penstock {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

/// A UTF-8 character, or one byte that does not begin a valid character.
struct Character {
  std::size_t size = 1;
  std::uint32_t code = 0;
  bool is_valid = true;
};

/// Returns the first character of a text. Requires that the text is not empty.
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {.size = 1, .code = lead};
  // These are the smallest code points that need 2, 3 and 4 bytes. A smaller code point in the same number of
  // bytes is invalid, because attackers use such forms to pass filters.
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  // Bytes below C2 continue a character or begin a form that is too long (C0 and C1). Bytes above F4 would
  // begin code points that Unicode does not have.
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return {.is_valid = false};
  // These bits of the lead byte belong to the code point.
  std::uint32_t code = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {.is_valid = false};
    code = (code << 6U) | (byte(i) & 0x3fU);
  }
  const bool is_half = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[size] || code > 0x10ffff || is_half) return {.is_valid = false};
  return {.size = size, .code = code};
}

/// Returns true for C0 and C1 control characters, for DEL, and for marks that change the direction of
/// writing.
bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

/// Returns the size of a colour escape (ESC [ digits and semicolons m) at the beginning of the text, or 0 if
/// there is none.
std::size_t colour_size(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

/// Returns the number of bytes at the beginning of the text that shown_text() leaves unchanged. Returns 0
/// if shown_text() replaces the first character.
std::size_t plain_size(std::string_view text) {
  if (text.front() == '\n' || text.front() == '\t') return 1;
  if (text.starts_with("\r\n")) return 2;
  if (const std::size_t colour = colour_size(text); colour > 0) return colour;
  const Character first = first_of(text);
  return first.is_valid && !is_control(first.code) ? first.size : 0;
}

/// Returns an escape sequence for a code point that must not be printed. JSON strings may contain code
/// points from 0x20 on without an escape. Such a code point gets JSON's own escape \u, so that JSON remains
/// valid when it is printed.
std::string escape_of(std::uint32_t code) {
  return code < 0x20 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
}

/// Returns `text` with an escape for each character that is in `special`, a set of control characters.
std::string with_escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) {
      out += escape_of(static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

/// Returns true for a character that is neither a line end nor printable ASCII.
bool is_special_character(char c) { return (c < ' ' || c > '~') && c != '\n'; }

/// Returns true if a spreadsheet would execute this text as a formula. A number such as -5 may begin like a
/// formula but is not one.
bool is_formula(std::string_view text) {
  if (text.empty() || std::string_view("=+-@\t\r").find(text.front()) == std::string_view::npos) return false;
  // The plus is removed first, because number_of_text() does not accept it.
  return !number_of_text<double>(text.substr(text.front() == '+' ? 1 : 0));
}

bool is_forbidden_in_xml(std::uint32_t code) {
  return code < 0x20 && code != '\t' && code != '\n' && code != '\r';
}

/// Appends a character of an XML text or attribute. A special character of XML is appended as an entity.
void append_xml(std::string& out, char c) {
  switch (c) {
    case '&':
      out += "&amp;";
      return;
    case '<':
      out += "&lt;";
      return;
    case '>':
      out += "&gt;";
      return;
    case '"':
      out += "&quot;";
      return;
    case '\'':
      out += "&#39;";
      return;
    default:
      out += c;
  }
}

/// Returns an entity for a character that has a special meaning in Markdown: it can end a cell or begin a
/// tag, a link, an image or an emphasis. Returns an empty text for all other characters.
std::string_view markdown_entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '|':
      return "&#124;";
    case '`':
      return "&#96;";
    case '*':
      return "&#42;";
    case '\\':
      return "&#92;";
    default:
      return {};
  }
}

}  // namespace

bool is_plain(std::string_view text) {
  // The loops have no branches and do not end early. The compiler can therefore check sixteen or more
  // characters at a time.
  unsigned char special = 0;
  for (const char c : text) special |= static_cast<unsigned char>(is_special_character(c));
  for (std::size_t i = 1; i < text.size(); ++i) {
    const int both = static_cast<int>(text[i - 1] == text[i]);
    const int begins = static_cast<int>(text[i] == ':') | static_cast<int>(text[i] == '#');
    special |= static_cast<unsigned char>(both & begins);
  }
  return special == 0;
}

std::string shown_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (const std::size_t plain = plain_size(rest); plain > 0) {
      out += rest.substr(0, plain);
      at += plain;
      continue;
    }
    const Character first = first_of(rest);
    if (first.is_valid) {
      out += escape_of(first.code);
    } else {
      out += kReplacement;
    }
    at += first.size;
  }
  return out;
}

std::string shown_message(std::string_view text) { return shown_text(with_escaped(text, "\x1b")); }

std::string shown_name(std::string_view text) {
  const bool is_plain = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  return is_plain ? std::string(text) : shown_text(with_escaped(text, "\x1b\n\r\t"));
}

std::string markdown_escaped(std::string_view text) {
  std::string out;
  for (const char c : shown_name(text)) {
    const std::string_view entity = markdown_entity(c);
    // Only "](" makes a link or an image, and brackets alone are plain text.
    if (c == '(' && out.ends_with(']')) {
      out += "&#40;";
    } else if (entity.empty()) {
      out += c;
    } else {
      out += entity;
    }
  }
  return out;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character next = first_of(text.substr(at));
    if (!next.is_valid) return false;
    at += next.size;
  }
  return true;
}

std::string xml_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character next = first_of(text.substr(at));
    // Section 2.2 of XML 1.0 excludes these two code points.
    if (!next.is_valid || next.code == 0xfffe || next.code == 0xffff) {
      out += kReplacement;
    } else if (is_forbidden_in_xml(next.code)) {
      out += '?';
    } else {
      out += text.substr(at, next.size);
    }
    at += next.size;
  }
  return out;
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : xml_text(text)) append_xml(out, c);
  return out;
}

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string csv_field(std::string_view name) {
  std::string text = shown_message(name);
  // A leading apostrophe makes spreadsheets show a field as text.
  if (is_formula(text)) text.insert(text.begin(), '\'');
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

namespace {

/// Removes the first line from `text`. Returns that line without its leading blanks.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return line;
}

}  // namespace

std::string in_one_line(std::string_view text) {
  std::string joined(take_line(text));
  if (!joined.ends_with(':')) return joined;
  while (!text.empty()) {
    joined += joined.ends_with(':') ? " " : "; ";
    joined += take_line(text);
  }
  return joined;
}

}  // namespace penstock
