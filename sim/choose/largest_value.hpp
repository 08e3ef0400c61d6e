#pragma once
// Finds the largest value of an integer key with which all ranks fit in memory. `penstock largest` and the
// reproductions of published tables use it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The result of trying one value of a scenario key. `rank` and the fields after it describe the device with
/// the least free memory for this value.
struct TriedValue {
  std::int64_t value = 0;
  std::string refusal{};   ///< reason why there is no prediction for the value; empty if there is one
  Bytes peak_bytes = 0;    ///< peak memory of the device
  Bytes usable_bytes = 0;  ///< memory of the device without its reserve
  std::int32_t rank = 0;
  std::string device{};
  MemoryByCategory at_peak{};

  bool fits() const { return refusal.empty() && peak_bytes <= usable_bytes; }
};

/// The values least, least + step, .., up to most. Requires least <= most and step >= 1.
struct ValueRange {
  std::int64_t least = 1;
  std::int64_t most = 1;
  std::int64_t step = 1;
};

struct LargestValue {
  std::optional<TriedValue> largest{};  ///< absent if no tried value fits
  /// The first value above `largest` that has a prediction, which needs too much memory. If many values above
  /// `largest` are refused, it is the first of these. If `largest` is absent, `next` is the smallest value
  /// that has a prediction, or the smallest of all. It is absent if `largest` is the end of the range.
  std::optional<TriedValue> next{};
  std::vector<TriedValue> tried{};  ///< tried values in ascending order

  /// Returns true if the memory never decreases from a tried value to a larger one. If it decreases, values
  /// above the result may fit as well.
  bool grows() const;
};

/// Returns the largest value of `range` that fits in memory. `probe` tries one value. The search doubles
/// the distance between tried values until one does not fit, and then halves the interval. It goes on above
/// values that are refused. If the smallest value does not fit, it tries larger ones while they need less
/// memory. Elsewhere it requires that memory grows with the value.
LargestValue largest_value(const ValueRange& range, const std::function<TriedValue(std::int64_t)>& probe);

}  // namespace penstock
