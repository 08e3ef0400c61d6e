#pragma once
// Columns of integers into which a run is packed for the viewer of a page. packed_runs.cpp fills them;
// report/web/viewer.js reads them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock {

/// The columns of numbers into which a run is packed for viewer.js.
enum class Column : std::uint8_t {
  rank_codes,
  code,
  microbatch,
  version,
  start,
  duration,
  release,
  interval_at,
  interval_mask,
  interval_part,
  ready,
  chain_known,
  chain_what,
  chain_span,
  chain_from,
  memory_between,
  memory_time,
  memory_change,
  memory_mask,
  memory_amount,
};
inline constexpr std::array<std::string_view, 20> kColumnNames = {
    "rankCodes",  "code",          "microbatch",   "version",      "start",      "duration",    "release",
    "intervalAt", "intervalMask",  "intervalPart", "ready",        "chainKnown", "chainWhat",   "chainSpan",
    "chainFrom",  "memoryBetween", "memoryTime",   "memoryChange", "memoryMask", "memoryAmount"};

/// Appends a number of variable length: seven bits a byte, the lowest first.
void put_number(std::string& bytes, std::uint64_t number);

/// The columns of one run. Zeros in sequence are stored as one 0 and how many follow it, because most
/// numbers are differences to what is expected, and most of these are 0.
class PackedColumns {
 public:
  void put(Column column, std::int64_t number);
  /// Adds a number that may be negative to a column. Numbers near 0 are short: 0, -1, 1, -2 become 0, 1, 2,
  /// 3.
  void put_signed(Column column, std::int64_t number);
  void clear(Column column) { of(column) = {}; }

  /// Returns the bytes of a column.
  std::string bytes(Column column) const;
  /// Returns the bytes of all columns, one column after the other.
  std::string all() const;
  /// Returns the number of bytes of each column by its name.
  nlohmann::ordered_json lengths() const;

 private:
  struct Bytes {
    std::string written;
    std::uint64_t zeros = 0;  // that follow and are not written yet
  };

  Bytes& of(Column column) { return columns_[static_cast<std::size_t>(column)]; }

  std::array<Bytes, kColumnNames.size()> columns_;
};

}  // namespace penstock
