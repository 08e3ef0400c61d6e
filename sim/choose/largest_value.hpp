#pragma once
// Finds the largest value of a whole-number key with which everything fits in memory. Used by `penstock
// largest` and by the published tables of largest models.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A value that was tried, and the device that has the least free memory with this value.
struct TriedValue {
  std::int64_t value = 0;
  std::string refusal{};   ///< reason why the value has no prediction; empty if it has one
  Bytes peak_bytes = 0;    ///< peak memory of that device
  Bytes usable_bytes = 0;  ///< memory of that device that a plan may use
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
  /// The value one step above `largest`, which needs too much memory or is refused. If `largest` is absent,
  /// it is the smallest value that was tried. Absent if `largest` is the end of the range.
  std::optional<TriedValue> next{};
  std::vector<TriedValue> tried{};  ///< ascending

  /// Returns true if no tried value needs less memory than a smaller value. If it is false, memory does not
  /// grow with the key, and a value that was not tried may also fit.
  bool grows() const;
};

/// Returns the largest value that fits. Doubles the distance between probes until a value does not fit, then
/// halves the interval. Skips refused values at the lower end. Requires that memory grows with the value.
LargestValue largest_value(const ValueRange& range, const std::function<TriedValue(std::int64_t)>& probe);

}  // namespace penstock
