#pragma once
// JSON that somebody else has written.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/print/units.hpp"

namespace penstock {

/// How many arrays and objects may stand in each other; what this program writes has less than ten.
inline constexpr int kDeepestJson = 100;

/// The value that `text` spells. Error, on one line: why it is none and where, as "at line 2, column 11:
/// ...", a number that no double holds, or more than kDeepestJson levels. `Json` is nlohmann's, sorted or
/// ordered.
template <typename Json>
tl::expected<Json, std::string> json_of(std::string_view text);

extern template tl::expected<nlohmann::json, std::string> json_of(std::string_view text);
extern template tl::expected<nlohmann::ordered_json, std::string> json_of(std::string_view text);

/// A key that stands twice in one object of `text`, which is JSON; of two values readers keep one in silence.
std::optional<std::string> key_given_twice(std::string_view text);

/// Returns an amount of memory as documents have it (shown_amount()): an integer unless it is a part of an
/// activation.
template <typename Json>
Json amount_json(std::int64_t amount, MemoryUnit unit) {
  const double shown = shown_amount(amount, unit);
  const bool is_whole = unit == MemoryUnit::bytes || shown == std::floor(shown);
  return is_whole ? Json(unit == MemoryUnit::bytes ? amount : std::llround(shown)) : Json(shown);
}

/// A value as a message shows it: on one line, cut where it is long.
template <typename Json>
std::string shown_json(const Json& value);

extern template std::string shown_json(const nlohmann::json& value);
extern template std::string shown_json(const nlohmann::ordered_json& value);

}  // namespace penstock
