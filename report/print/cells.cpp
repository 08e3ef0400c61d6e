
#include "report/print/cells.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

Cell text_cell(std::string text) { return {std::move(text), std::nullopt}; }

Cell count_cell(std::int64_t count) { return {fmt::format("{}", count), static_cast<double>(count)}; }

Cell duration_cell(Ns duration_ns) {
  return {format_duration(duration_ns), static_cast<double>(duration_ns)};
}

Cell period_cell(double period_ns) {
  // A longer or infinite period does not fit into 64 bits.
  constexpr double kLongest = 9e18;
  return {format_duration(static_cast<Ns>(std::llround(std::min(period_ns, kLongest)))), period_ns};
}

Cell bytes_cell(Bytes bytes) { return {format_bytes(bytes), static_cast<double>(bytes)}; }

Cell percent_cell(double part) { return {format_percent(part), part}; }

Cell rate_cell(double rate) { return {format_rate(rate), rate}; }

Cell quantity_cell(double quantity) { return {format_quantity(quantity), quantity}; }

}  // namespace penstock
