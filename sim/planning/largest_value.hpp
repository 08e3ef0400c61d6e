#pragma once
// The largest value of a whole-number key with which everything fits in memory. Used by `penstock largest`
// and by the published tables of largest models.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report/print/memory_category.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A value that was tried, with the device that has least room left.
struct TriedValue {
  std::int64_t value = 0;
  std::string refusal{};   ///< The reason why the value has no prediction; empty where it has one.
  Bytes peak_bytes = 0;    ///< What that device holds at its fullest.
  Bytes usable_bytes = 0;  ///< What a plan may use of it.
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
  std::optional<TriedValue> largest{};  ///< Absent where no tried value fits.
  /// The value one step above, which needs too much or is refused; without `largest` the smallest one that
  /// was tried. Absent where the largest value ends the range.
  std::optional<TriedValue> next{};
  std::vector<TriedValue> tried{};  ///< In the order of the values.

  /// Returns whether no tried value needs less than a smaller one. Where it is false, memory does not grow
  /// with the key, and a value that was not tried may fit as well.
  bool grows() const;
};

/// Returns the largest value that fits. Probes at doubling distances until one does not fit, then halves the
/// gap; refused values at the lower end are passed over. Requires memory that grows with the value.
LargestValue largest_value(const ValueRange& range, const std::function<TriedValue(std::int64_t)>& probe);

}  // namespace penstock
