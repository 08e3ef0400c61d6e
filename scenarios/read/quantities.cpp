// Reads a decimal number with a unit. The number is stored as mantissa * 10^exponent in integers. So
// "22.307 ms" is exactly 22307000 ns.

#include "scenarios/read/quantities.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "text/numbers.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

__extension__ typedef unsigned __int128 Digits;

/// A number from a text with its unit. The number is decimal and exact.
struct Quantity {
  Digits mantissa = 0;
  int exponent = 0;
  std::string number;
  std::string_view unit;
};

/// The description of one kind of quantity, as error messages print it.
struct Kind {
  std::string_view noun;   ///< such as "a duration such as \"5 us\""
  std::string_view units;  ///< such as "ns, us, ms, s, min, h"
};

constexpr Kind kDuration{"a duration such as \"5 us\"", "ns, us, ms, s, min, h"};
constexpr Kind kBytes{"a size such as \"16 MiB\"", "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB"};
constexpr Kind kBandwidth{"a bandwidth such as \"50 GiB/s\" or \"unlimited\"",
                          "B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, Mb/s, Gb/s, Gbit/s"};
constexpr Kind kFlops{"a rate such as \"15.7 TFLOP/s\"", "FLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  if (text.empty()) return "nothing";
  return text.size() <= kMost ? fmt::format("\"{}\"", text) : fmt::format("\"{}...\"", text.substr(0, kMost));
}

tl::unexpected<std::string> expected_but(const Kind& kind, std::string_view text, std::string_view why) {
  return tl::unexpected(fmt::format("expected {} (units: {}), got {}{}{}", kind.noun, kind.units, shown(text),
                                    why.empty() ? "" : ": ", why));
}

/// Removes the digits of a number such as "12", "12.5" or ".5" from `rest`. The mantissa contains the first
/// 22 digits. Later digits only change the exponent, because they are too small to matter. Returns false if
/// there is no digit.
bool take_digits(std::string_view& rest, Quantity& quantity) {
  constexpr int kMostDigits = 22;
  int kept = 0;
  bool any = false;
  bool after_point = false;
  for (; !rest.empty() && (is_digit(rest.front()) || (rest.front() == '.' && !after_point));
       rest.remove_prefix(1)) {
    if (rest.front() == '.') {
      after_point = true;
      continue;
    }
    any = true;
    if (kept < kMostDigits) {
      quantity.mantissa = quantity.mantissa * 10 + static_cast<Digits>(rest.front() - '0');
      if (quantity.mantissa != 0) ++kept;
      if (after_point) --quantity.exponent;
    } else if (!after_point) {
      ++quantity.exponent;
    }
  }
  return any;
}

/// Removes an exponent such as "e-3" from `rest`, if there is one. Returns false if it does not fit in an
/// int.
bool take_exponent(std::string_view& rest, Quantity& quantity) {
  const bool has_sign = rest.size() > 1 && (rest[1] == '-' || rest[1] == '+');
  const std::size_t first_digit = has_sign ? 2 : 1;
  const bool is_exponent = !rest.empty() && (rest.front() == 'e' || rest.front() == 'E') &&
                           rest.size() > first_digit && is_digit(rest[first_digit]);
  if (!is_exponent) return true;
  constexpr int kMostExponent = 10000;
  const auto exponent = leading_number<std::int32_t>(rest.substr(first_digit));
  if (!exponent.value || *exponent.value > kMostExponent) return false;
  quantity.exponent += rest[1] == '-' ? -*exponent.value : *exponent.value;
  rest.remove_prefix(first_digit + exponent.spelling.size());
  return true;
}

tl::expected<Quantity, std::string> take_quantity(std::string_view text, const Kind& kind) {
  std::string_view rest = trimmed(text);
  if (!rest.empty() && rest.front() == '-') return expected_but(kind, text, "it must not be negative");
  for (const std::string_view word : {"inf", "nan", ".inf", ".nan", ".Inf", ".NaN", "Inf", "NaN"}) {
    if (rest.starts_with(word)) return expected_but(kind, text, "it must be finite");
  }
  Quantity quantity;
  const std::string_view from_number = rest;
  if (!take_digits(rest, quantity)) return expected_but(kind, text, "");
  if (!take_exponent(rest, quantity)) return expected_but(kind, text, "the number is too large");
  quantity.number = from_number.substr(0, from_number.size() - rest.size());
  quantity.unit = trimmed(rest);
  return quantity;
}

/// Returns mantissa * 10^exponent * scale, rounded to the nearest integer, or nothing if it exceeds 64 bits.
std::optional<std::int64_t> whole(const Quantity& quantity, std::int64_t scale) {
  constexpr Digits kLargest = std::numeric_limits<std::int64_t>::max();
  Digits value = quantity.mantissa * static_cast<Digits>(scale);  // the value is at most 10^22 * 2^50 < 2^124
  if (value == 0) return 0;
  int exponent = quantity.exponent;
  for (; exponent > 0; --exponent) {
    value *= 10;
    if (value > kLargest) return std::nullopt;
  }
  Digits divisor = 1;
  constexpr int kMostPower = 38;  // 10^38 < 2^127
  // The value is below 10^38, so the result is less than one half and rounds to 0.
  if (exponent < -kMostPower) return 0;
  for (; exponent < 0; ++exponent) divisor *= 10;
  // One half is rounded up. This is exact, because every divisor except 1 is even, and a division by 1 has no
  // remainder.
  value = value / divisor + (value % divisor >= divisor - divisor / 2 ? 1 : 0);
  if (value > kLargest) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

struct Unit {
  std::string_view name;
  std::int64_t scale;  // number of ns or bytes in the unit; at most 2^50 (see whole())
};

constexpr std::array kTimeUnits = {Unit{"ns", 1},
                                   Unit{"us", 1'000},
                                   Unit{"µs", 1'000},
                                   Unit{"ms", 1'000'000},
                                   Unit{"s", 1'000'000'000},
                                   Unit{"min", 60'000'000'000},
                                   Unit{"h", 3'600'000'000'000}};

constexpr std::array kByteUnits = {Unit{"B", 1},
                                   Unit{"kB", 1'000},
                                   Unit{"MB", 1'000'000},
                                   Unit{"GB", 1'000'000'000},
                                   Unit{"TB", 1'000'000'000'000},
                                   Unit{"PB", 1'000'000'000'000'000},
                                   Unit{"KiB", 1LL << 10},
                                   Unit{"MiB", 1LL << 20},
                                   Unit{"GiB", 1LL << 30},
                                   Unit{"TiB", 1LL << 40},
                                   Unit{"PiB", 1LL << 50}};

std::string why_no_unit(std::string_view unit, const Kind& kind) {
  if (unit.empty()) return "the unit is missing";
  if (unit == "KB") return "write kB (1000 B) or KiB (1024 B)";
  const bool counts_bits = unit.ends_with('b') || unit.ends_with("bit");
  if (counts_bits && kind.noun == kBytes.noun) return "b is a bit, a size takes bytes (B)";
  return fmt::format("unknown unit \"{}\"", unit);
}

tl::expected<std::int64_t, std::string> parse_whole(std::string_view text, const Kind& kind,
                                                    std::span<const Unit> units) {
  const auto quantity = take_quantity(text, kind);
  if (!quantity) return tl::unexpected(quantity.error());
  // A quantity of 0 is the same in every unit, so it needs none.
  if (quantity->unit.empty() && quantity->mantissa == 0) return 0;
  for (const Unit& unit : units) {
    if (unit.name != quantity->unit) continue;
    if (const auto value = whole(*quantity, unit.scale)) return *value;
    return expected_but(kind, text, "the number is too large");
  }
  return expected_but(kind, text, why_no_unit(quantity->unit, kind));
}

/// A prefix of a unit, such as "Ki". It multiplies the number by 10^ten * 2^two.
struct Prefix {
  std::string_view name;
  int ten;
  int two;
};

constexpr std::array kPrefixes = {Prefix{"", 0, 0},    Prefix{"k", 3, 0},   Prefix{"M", 6, 0},
                                  Prefix{"G", 9, 0},   Prefix{"T", 12, 0},  Prefix{"P", 15, 0},
                                  Prefix{"Ki", 0, 10}, Prefix{"Mi", 0, 20}, Prefix{"Gi", 0, 30},
                                  Prefix{"Ti", 0, 40}, Prefix{"Pi", 0, 50}};

/// Returns the quantity times 10^ten * 2^two, rounded once. Returns nothing if the result is not finite.
std::optional<double> scaled(const Quantity& quantity, int ten, int two) {
  const std::size_t e = quantity.number.find_first_of("eE");
  int exponent = ten;
  if (e != std::string::npos) {
    const std::string_view number = quantity.number;
    const std::size_t digits = e + (number[e + 1] == '+' ? 2 : 1);
    exponent += leading_number<std::int32_t>(number.substr(digits)).value.value_or(0);
  }
  const std::string decimal = fmt::format("{}e{}", quantity.number.substr(0, e), exponent);
  const auto written = leading_number<double>(decimal).value;
  if (!written && quantity.mantissa != 0) return std::nullopt;
  // A multiplication by a power of two does not round, so the decimal number is rounded only once.
  const double value = std::ldexp(written.value_or(0), two);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// Reads a rate whose unit is a prefix followed by `base`. The value is also multiplied by 2^two, for example
/// by 2^-3 to convert bits to bytes.
tl::expected<double, std::string> parse_rate(std::string_view text, const Kind& kind,
                                             const Quantity& quantity, std::string_view base, int two) {
  const std::string_view prefix_text = quantity.unit.substr(0, quantity.unit.size() - base.size());
  for (const Prefix& prefix : kPrefixes) {
    if (prefix.name != prefix_text) continue;
    if (const auto value = scaled(quantity, prefix.ten, prefix.two + two)) return *value;
    return expected_but(kind, text, "the number is too large");
  }
  return expected_but(kind, text, why_no_unit(quantity.unit, kind));
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

tl::expected<Ns, std::string> parse_duration(std::string_view text) {
  return parse_whole(text, kDuration, kTimeUnits);
}

tl::expected<double, std::string> parse_fine_duration(std::string_view text) {
  const auto quantity = take_quantity(text, kDuration);
  if (!quantity) return tl::unexpected(quantity.error());
  if (quantity->unit.empty() && quantity->mantissa == 0) return 0;
  const auto* unit = std::ranges::find(kTimeUnits, quantity->unit, &Unit::name);
  if (unit == kTimeUnits.end()) return expected_but(kDuration, text, why_no_unit(quantity->unit, kDuration));
  const auto value = scaled(*quantity, 0, 0);
  if (value) return *value * static_cast<double>(unit->scale);
  return expected_but(kDuration, text, "the number is too large");
}

tl::expected<Bytes, std::string> parse_bytes(std::string_view text) {
  return parse_whole(text, kBytes, kByteUnits);
}

tl::expected<double, std::string> parse_bandwidth(std::string_view text) {
  if (trimmed(text) == "unlimited") return kUnlimitedBandwidth;
  const auto quantity = take_quantity(text, kBandwidth);
  if (!quantity) return tl::unexpected(quantity.error());
  if (quantity->mantissa == 0) return expected_but(kBandwidth, text, "it must be more than 0");
  for (const auto& [base, two] : {std::pair{"B/s", 0}, std::pair{"bit/s", -3}, std::pair{"b/s", -3}}) {
    if (quantity->unit.ends_with(base)) return parse_rate(text, kBandwidth, *quantity, base, two);
  }
  return expected_but(kBandwidth, text, why_no_unit(quantity->unit, kBandwidth));
}

tl::expected<double, std::string> parse_flops(std::string_view text) {
  const auto quantity = take_quantity(text, kFlops);
  if (!quantity) return tl::unexpected(quantity.error());
  if (quantity->unit.empty() && quantity->mantissa == 0) return 0.0;
  for (const std::string_view base : {"FLOP/s", "FLOPS"}) {
    if (quantity->unit.ends_with(base)) return parse_rate(text, kFlops, *quantity, base, 0);
  }
  return expected_but(kFlops, text, why_no_unit(quantity->unit, kFlops));
}

std::string duration_text(Ns duration_ns) {
  struct TimeUnit {
    Ns length_ns;
    std::string_view name;
  };
  for (const TimeUnit unit :
       {TimeUnit{1'000'000'000, "s"}, TimeUnit{1'000'000, "ms"}, TimeUnit{1'000, "us"}}) {
    // This is the largest unit in which three decimals are exact. The text can therefore be read again as the
    // same time.
    if (duration_ns != 0 && duration_ns >= unit.length_ns && duration_ns % (unit.length_ns / 1000) == 0) {
      std::string text = fmt::format("{}.{:03}", duration_ns / unit.length_ns,
                                     duration_ns % unit.length_ns / (unit.length_ns / 1000));
      text.erase(text.find_last_not_of('0') + 1);
      if (text.back() == '.') text.pop_back();
      return fmt::format("{} {}", text, unit.name);
    }
  }
  return fmt::format("{} ns", duration_ns);
}

}  // namespace penstock
