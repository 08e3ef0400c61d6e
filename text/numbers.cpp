// Reads decimal numbers. No other file calls std::from_chars. That function reads only the beginning of a
// text, and a caller could forget to check whether text remains.

#include "text/numbers.hpp"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace penstock {

template <typename Number>
LeadingNumber<Number> leading_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument) return {};
  const std::string_view spelling = text.substr(0, static_cast<std::size_t>(end - text.data()));
  if (error != std::errc{}) return {.value = std::nullopt, .spelling = spelling};
  return {.value = value, .spelling = spelling};
}

template <typename Number>
std::optional<Number> number_of_text(std::string_view text) {
  const LeadingNumber<Number> number = leading_number<Number>(text);
  return number.spelling.size() == text.size() ? number.value : std::nullopt;
}

template LeadingNumber<std::int32_t> leading_number(std::string_view text);
template LeadingNumber<std::int64_t> leading_number(std::string_view text);
template LeadingNumber<std::uint64_t> leading_number(std::string_view text);
template LeadingNumber<double> leading_number(std::string_view text);
template std::optional<std::int32_t> number_of_text(std::string_view text);
template std::optional<std::int64_t> number_of_text(std::string_view text);
template std::optional<std::uint64_t> number_of_text(std::string_view text);
template std::optional<double> number_of_text(std::string_view text);

std::optional<double> finite_number(std::string_view text) {
  const std::optional<double> number = number_of_text<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

tl::expected<std::int64_t, std::string> whole_number(std::string_view text, Range range) {
  const std::optional<std::int64_t> number = number_of_text<std::int64_t>(text);
  if (number && *number >= range.least && *number <= range.most) return *number;
  constexpr std::size_t kMostShown = 40;
  const std::string found = text.empty() ? "nothing"
                                         : fmt::format("\"{}{}\"", text.substr(0, kMostShown),
                                                       text.size() > kMostShown ? "..." : "");
  return tl::unexpected(
      fmt::format("expected a whole number from {} to {}, got {}", range.least, range.most, found));
}

}  // namespace penstock
