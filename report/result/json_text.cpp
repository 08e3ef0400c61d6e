// nlohmann::json reads any depth without recursion, but copies, prints and compares what it has read level by
// level on the stack: a file of brackets alone would end the program. Its callback, which knows the depth,
// takes thirty times as long as reading without it; one pass over the brackets takes next to nothing.

#include "report/result/json_text.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

namespace penstock {
namespace {

/// Whether brackets outside strings ever stand deeper than `most`; of a text that is no JSON any answer.
bool nests_deeper_than(std::string_view text, int most) {
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') is_quoted = !is_quoted;
    if (is_quoted) {
      if (c == '\\') ++at;  // whatever it escapes is no end
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// The part of a message of the library that speaks of the text.
std::string_view reason_in(std::string_view message) {
  const std::size_t at = std::min(message.find("at line"), message.find("number overflow"));
  return at == std::string_view::npos ? message : message.substr(at);
}

}  // namespace

template <typename Json>
tl::expected<Json, std::string> json_of(std::string_view text) {
  if (nests_deeper_than(text, kDeepestJson))
    return tl::unexpected(fmt::format("more than {} arrays and objects stand in each other", kDeepestJson));
  try {
    return Json::parse(text);
  } catch (const typename Json::exception& error) {
    return tl::unexpected(std::string(reason_in(error.what())));
  }
}

template <typename Json>
std::string shown_json(const Json& value) {
  constexpr std::size_t kLongest = 40;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

template tl::expected<nlohmann::json, std::string> json_of(std::string_view text);
template tl::expected<nlohmann::ordered_json, std::string> json_of(std::string_view text);

template std::string shown_json(const nlohmann::json& value);
template std::string shown_json(const nlohmann::ordered_json& value);

}  // namespace penstock
