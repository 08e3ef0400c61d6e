#pragma once
// Functions that read JSON from files that other programs or people may have written.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/print/units.hpp"

namespace penstock {

/// The largest depth of arrays and objects that is accepted. The documents of this program are less than ten
/// deep.
inline constexpr int kDeepestJson = 100;

/// Returns the value of a text. `Json` is nlohmann's sorted or ordered type. Error, on one line: a fault with
/// its position ("at line 2, column 11: ..."), a number that does not fit into a double, or a depth above
/// kDeepestJson.
template <typename Json>
tl::expected<Json, std::string> json_of(std::string_view text);

extern template tl::expected<nlohmann::json, std::string> json_of(std::string_view text);
extern template tl::expected<nlohmann::ordered_json, std::string> json_of(std::string_view text);

/// Returns a key that appears twice in one object of `text`, or nothing if there is none. Requires valid
/// JSON. Other readers would keep one of the two values without a message.
std::optional<std::string> key_given_twice(std::string_view text);

/// Returns an amount of memory as documents show it (shown_amount()): as an integer, or as a fraction if it
/// is a part of an activation.
template <typename Json>
Json amount_json(std::int64_t amount, MemoryUnit unit) {
  const double shown = shown_amount(amount, unit);
  const bool is_whole = unit == MemoryUnit::bytes || shown == std::floor(shown);
  return is_whole ? Json(unit == MemoryUnit::bytes ? amount : std::llround(shown)) : Json(shown);
}

/// Returns a value for a message: on one line, cut if it is long.
template <typename Json>
std::string shown_json(const Json& value);

extern template std::string shown_json(const nlohmann::json& value);
extern template std::string shown_json(const nlohmann::ordered_json& value);

}  // namespace penstock
