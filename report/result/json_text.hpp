#pragma once
// Reads JSON safely, because the files may have been written by other programs or by users. It refuses
// deep nesting and finds repeated keys, which the JSON library accepts.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/print/units.hpp"

namespace penstock {

/// The deepest nesting of arrays and objects that is accepted. Penstock's own documents have fewer than ten
/// levels.
inline constexpr int kDeepestJson = 100;

/// Parses a JSON text. `Json` is one of nlohmann's two types, sorted or ordered. Returns a one-line error
/// with the position if the text is not JSON. A number that does not fit into a double is also an error, and
/// so is a nesting that is too deep.
template <typename Json>
tl::expected<Json, std::string> json_of(std::string_view text);

extern template tl::expected<nlohmann::json, std::string> json_of(std::string_view text);
extern template tl::expected<nlohmann::ordered_json, std::string> json_of(std::string_view text);

/// Returns a key that appears twice in the same object of `text`, or nothing if there is none. JSON parsers
/// would silently drop one of its two values. Requires valid JSON.
std::optional<std::string> key_given_twice(std::string_view text);

/// Returns an amount of memory as a JSON number, in bytes or activations (see shown_amount()). The number
/// is an integer unless it contains a part of an activation.
template <typename Json>
Json amount_json(std::int64_t amount, MemoryUnit unit) {
  const double shown = shown_amount(amount, unit);
  const bool is_whole = unit == MemoryUnit::bytes || shown == std::floor(shown);
  return is_whole ? Json(unit == MemoryUnit::bytes ? amount : std::llround(shown)) : Json(shown);
}

/// Returns a JSON value as text for an error message. The text has one line, and a long value is shortened.
template <typename Json>
std::string shown_json(const Json& value);

extern template std::string shown_json(const nlohmann::json& value);
extern template std::string shown_json(const nlohmann::ordered_json& value);

}  // namespace penstock
