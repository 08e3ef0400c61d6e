#pragma once
// Numbers that a text spells in decimal, alone or in front of other text. No blanks, no plus, no "0x": "010"
// is ten. Numbers with units are read by scenarios/read/quantities.hpp.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace penstock {

/// The smallest and the largest whole number that is accepted.
struct Range {
  std::int64_t least = 0;
  std::int64_t most = 2147483647;
};

/// A number at the front of a text.
template <typename Number>
struct LeadingNumber {
  std::optional<Number> value;  ///< absent if there is no number, or if `Number` cannot hold it
  std::string_view spelling;    ///< the characters of the number; empty if the text begins with none
};

/// Reads as many characters as make a number. `Number` is std::int32_t, std::int64_t, std::uint64_t or
/// double.
template <typename Number>
LeadingNumber<Number> leading_number(std::string_view text);

/// Returns the number that all of `text` spells, or nothing. Takes the same types as `leading_number`.
template <typename Number>
std::optional<Number> number_of_text(std::string_view text);

/// Returns the number that all of `text` spells if it is finite, or nothing.
std::optional<double> finite_number(std::string_view text);

/// Returns the whole number that all of `text` spells: "1.0", "1e3" and "+1" are none. Error:
/// `expected a whole number from 1 to 8, got "9x"`, or `got nothing` for an empty text.
tl::expected<std::int64_t, std::string> whole_number(std::string_view text, Range range);

}  // namespace penstock
