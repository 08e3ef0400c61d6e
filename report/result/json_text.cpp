// Limits the depth of JSON before it is parsed. nlohmann::json reads any depth without recursion, but it
// copies, prints and compares values recursively. A file of many brackets would therefore overflow the stack.
// The callback of the library reports the depth, but makes reading thirty times slower. Therefore a separate
// pass counts brackets first. Tests: result_json_test.cpp.

#include "report/result/json_text.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

namespace penstock {
namespace {

/// Returns true if brackets outside strings are nested deeper than `most` levels. If the text is not JSON,
/// the result has no meaning.
bool nests_deeper_than(std::string_view text, int most) {
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') is_quoted = !is_quoted;
    if (is_quoted) {
      // An escaped quotation mark does not end the string.
      if (c == '\\') ++at;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// Returns the part of the JSON library's error message that describes the fault in the text.
std::string_view reason_in(std::string_view message) {
  const std::size_t at = std::min(message.find("at line"), message.find("number overflow"));
  return at == std::string_view::npos ? message : message.substr(at);
}

/// A parser that stops at the first key that occurs twice in one object. It stores no values, so it needs
/// little time.
class KeysOnce : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    twice = name;
    return false;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  std::optional<std::string> twice;

 private:
  // The keys of each object that is still open.
  std::vector<std::set<std::string>> open_;
};

}  // namespace

std::optional<std::string> key_given_twice(std::string_view text) {
  KeysOnce keys;
  nlohmann::json::sax_parse(text, &keys);
  return keys.twice;
}

template <typename Json>
tl::expected<Json, std::string> json_of(std::string_view text) {
  if (nests_deeper_than(text, kDeepestJson))
    return tl::unexpected(fmt::format("arrays and objects are nested more than {} deep", kDeepestJson));
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
