#pragma once
// Reads decimal numbers from text. A number may be the whole text or its beginning. Blanks, a plus sign and
// "0x" are not accepted, and "010" is ten. scenarios/read/quantities.hpp reads numbers with units.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace penstock {

/// The range of whole numbers that a reader accepts. It includes `least` and `most`.
struct Range {
  std::int64_t least = 0;
  std::int64_t most = 2147483647;
};

/// A number at the beginning of a text.
template <typename Number>
struct LeadingNumber {
  /// Absent if the text does not begin with a number, or `Number` cannot hold it.
  std::optional<Number> value;
  /// The characters of the number; empty if the text does not begin with a number.
  std::string_view spelling;
};

/// Reads the longest number at the beginning of the text, and returns it with its spelling. `Number` is
/// std::int32_t, std::int64_t, std::uint64_t or double.
template <typename Number>
LeadingNumber<Number> leading_number(std::string_view text);

/// Returns the number that the whole text spells, or nothing if the text is not a number. `Number` has the
/// same types as for leading_number().
template <typename Number>
std::optional<Number> number_of_text(std::string_view text);

/// Returns the finite number that the whole text spells, or nothing if the text is no such number.
std::optional<double> finite_number(std::string_view text);

/// Returns the whole number that `text` spells. "1.0", "1e3" and "+1" are not accepted. Fails if `text` is
/// not a whole number in `range`. The error is `expected a whole number from 1 to 8, got "9x"`, or ends in
/// `got nothing` for an empty text.
tl::expected<std::int64_t, std::string> whole_number(std::string_view text, Range range);

}  // namespace penstock
