// Writes numbers with units for people. Durations have three decimals, and bytes have two. The unit is the
// largest one in which the number is at least 1. Integers are used for rounding, so that 999 999 600 ns is
// "1.000 s" and never "1000.000 ms". JSON and CSV contain exact numbers instead. Tested by units_test.cpp.

#include "report/print/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

namespace {

struct TimeUnit {
  std::uint64_t unit_ns;
  std::string_view name;
};
constexpr std::array<TimeUnit, 3> kTimeUnits = {{{1'000, "us"}, {1'000'000, "ms"}, {1'000'000'000, "s"}}};
constexpr std::array<std::string_view, 6> kByteUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

/// Returns the absolute value as an unsigned number. A signed number cannot hold the absolute value of the
/// smallest signed number of 64 bits.
std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

/// Returns a number with its unit, but without trailing zeros: "2.5 ms" for "2.500 ms", "5 ms" for "5.000
/// ms", and "0" for "0.00 B".
std::string without_trailing_zeros(const std::string& text) {
  const std::size_t blank = text.find(' ');
  std::string number = text.substr(0, blank);
  if (number.find('.') != std::string::npos) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
  }
  // A quantity of 0 is the same in every unit, so it needs none.
  if (number == "0") return number;
  return blank == std::string::npos ? number : number + text.substr(blank);
}

}  // namespace

std::string format_duration(Ns duration_ns) {
  const std::string_view sign = duration_ns < 0 ? "-" : "";
  const std::uint64_t ns = magnitude(duration_ns);
  if (ns < 1'000) return fmt::format("{}{} ns", sign, ns);
  for (const TimeUnit& unit : kTimeUnits) {
    // One thousandth of the unit, in ns.
    const std::uint64_t thousandth = unit.unit_ns / 1'000;
    const std::uint64_t thousandths = (ns + thousandth / 2) / thousandth;
    // The test uses the rounded number, because rounding can lead to the next unit. For example, 999 999 600
    // ns is "1.000 s".
    if (thousandths < 1'000'000 || unit.name == kTimeUnits.back().name) {
      return fmt::format("{}{}.{:03} {}", sign, thousandths / 1'000, thousandths % 1'000, unit.name);
    }
  }
  return {};
}

std::string format_duration_short(Ns duration_ns) {
  return without_trailing_zeros(format_duration(duration_ns));
}

std::string format_tick(Ns tick_ns, Ns last_ns) {
  if (tick_ns == 0) return "0";
  TimeUnit chosen = {1, "ns"};
  for (const TimeUnit& unit : kTimeUnits) {
    // The last tick decides the unit, so that all ticks of an axis have the same unit.
    if (magnitude(last_ns) >= unit.unit_ns) chosen = unit;
  }
  return fmt::format("{:.12g} {}", static_cast<double>(tick_ns) / static_cast<double>(chosen.unit_ns),
                     chosen.name);
}

std::string format_bytes(Bytes bytes) {
  const std::string_view sign = bytes < 0 ? "-" : "";
  double value = static_cast<double>(magnitude(bytes));
  if (value < 1024) return fmt::format("{}{:.0f} B", sign, value);
  std::size_t unit = 0;
  value /= 1024;
  // A value of 1023.995 or more would be printed as 1024.00, so it is converted to the next unit.
  while (value >= 1023.995 && unit + 1 < kByteUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{}{:.2f} {}", sign, value, kByteUnits[unit]);
}

std::string format_bytes_short(Bytes bytes) { return without_trailing_zeros(format_bytes(bytes)); }

std::string format_memory(std::int64_t amount, MemoryUnit unit) {
  switch (unit) {
    case MemoryUnit::bytes:
      return format_bytes(amount);
    case MemoryUnit::activations:
      if (amount % kActivationParts == 0) return format_count(amount / kActivationParts, "activation");
      return without_trailing_zeros(fmt::format("{:.2f} activations", shown_amount(amount, unit)));
  }
  return {};
}

double shown_amount(std::int64_t amount, MemoryUnit unit) {
  const auto shown = static_cast<double>(amount);
  return unit == MemoryUnit::bytes ? shown : shown / static_cast<double>(kActivationParts);
}

std::int64_t amount_of_shown(double shown, MemoryUnit unit) {
  return std::llround(unit == MemoryUnit::bytes ? shown : shown * static_cast<double>(kActivationParts));
}

std::optional<std::string> lack_of_memory(std::string_view what, double bytes,
                                          std::optional<Bytes> within_reach, std::string_view remedy) {
  if (!within_reach || bytes <= static_cast<double>(*within_reach)) return std::nullopt;
  return fmt::format("{} take at least {} of memory, and {} are within reach: {}", what,
                     format_bytes(static_cast<Bytes>(bytes)), format_bytes(*within_reach), remedy);
}

std::string format_percent(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:.2f} %", 100 * ratio) : "n/a";
}

std::string format_rate(double rate) {
  if (!std::isfinite(rate)) return "n/a";
  constexpr int kDigits = 6;
  // The number of digits before the decimal point, such as 3 for 242.4. For a rate below 1, it is minus the
  // number of zeros directly after the decimal point, such as -1 for 0.05.
  const int before_point = rate == 0 ? 1 : static_cast<int>(std::floor(std::log10(std::abs(rate)))) + 1;
  if (before_point < -2) return fmt::format("{:.6g}", rate);
  return fmt::format("{:.{}f}", rate, std::clamp(kDigits - before_point, 0, kDigits));
}

std::string format_quantity(double quantity) {
  // Below this number a double represents every integer exactly.
  constexpr double kExactIntegers = 1e15;
  if (!std::isfinite(quantity)) return "n/a";
  const bool whole = quantity == std::floor(quantity) && std::abs(quantity) < kExactIntegers;
  return whole ? fmt::format("{:.0f}", quantity) : fmt::format("{:.6g}", quantity);
}

std::string shortest_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string format_count(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Computes the ticks of an axis. The distance of ticks is 1, 2 or 5 times a power of ten. It is the smallest
// such distance that gives at most the wanted number of ticks. For bytes the same rule is applied to a unit
// such as KiB or MiB. Comparisons allow a relative error of 1e-9, because otherwise the rounding of 3 * 0.1
// would remove the tick at 0.3.

namespace {

/// Returns the ticks 0, step, 2 step, ... up to the first tick that is not below `highest`. Each tick is a
/// product, because repeated addition would accumulate rounding errors.
std::vector<double> ticks_until(double highest, double step) {
  std::vector<double> ticks = {0};
  while (ticks.back() < highest * (1 - 1e-9)) ticks.push_back(step * static_cast<double>(ticks.size()));
  return ticks;
}

}  // namespace

double nice_step(double span, int most) {
  const double least = span / most * (1 - 1e-9);
  // The search starts at the largest power of ten that is at most `least`: 1 for 1.7, and 10 for 17.
  double step = std::pow(10.0, std::floor(std::log10(least)));
  // The factors give the steps 1, 2, 5 and 10.
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (step >= least) break;
    step *= factor;
  }
  return step;
}

std::vector<Ns> time_ticks(Ns makespan_ns, int most) {
  std::vector<Ns> ticks = {0};
  if (makespan_ns <= 0) return ticks;
  const Ns step = std::max<Ns>(1, std::llround(nice_step(static_cast<double>(makespan_ns), most)));
  // The step is subtracted from the makespan, because adding it to the last tick could overflow 64 bits.
  while (ticks.back() <= makespan_ns - step) ticks.push_back(ticks.back() + step);
  return ticks;
}

std::vector<double> value_ticks(double highest, int most) {
  if (!(highest > 0) || !std::isfinite(highest)) return {0, 1};
  return ticks_until(highest, nice_step(highest, most));
}

std::vector<double> byte_ticks(double highest, int most) {
  if (!(highest > 0) || !std::isfinite(highest)) return {0, 1};
  // The size of the unit (B, KiB, MiB, ...) that format_bytes() uses for `highest`, in bytes.
  double unit = 1;
  while (highest / unit >= 1024) unit *= 1024;
  // The step is at least one byte, because half a byte does not exist.
  const double step = std::max(unit == 1 ? 1.0 : 0.0, nice_step(highest / unit, most));
  std::vector<double> ticks = ticks_until(highest / unit, step);
  for (double& tick : ticks) tick *= unit;
  return ticks;
}

}  // namespace penstock
