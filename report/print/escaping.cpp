// What stands between a user's text (names of files, layers, devices) and a form with a grammar of its own.
// XML's five characters become entities and control characters, which XML 1.0 cannot hold even as entities,
// become '?'; JSON strings are nlohmann-json's, with bytes that are no UTF-8 replaced; CSV fields are quoted
// as RFC 4180 has it.

#include "report/print/escaping.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace penstock {
namespace {

bool is_forbidden_in_xml(char c) {
  return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
}

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
      out += is_forbidden_in_xml(c) ? '?' : c;
  }
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) append_xml(out, c);
  return out;
}

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace penstock
