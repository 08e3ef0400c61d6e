// Finds the largest value of a key with two searches of the same kind. Values are numbered 0, 1, 2, ..
// from the smallest one. The two searches find:
//
//   1. the first value that has a prediction; for example, fewer layers than stages have none
//   2. the last value that fits
//
//   fits       0  1     3        7              15
//   does not                           11                 31     doubling: 0 1 3 7 15, then 31 fails ..
//                                                                .. and the gap 15-31 is halved
//
// Each tried value needs a simulation, so results are cached.

#include "sim/choose/largest_value.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace penstock {

namespace {

/// A cache of the results of tried values. Number n stands for the value least + n * step of the range.
class Probes {
 public:
  Probes(const ValueRange& range, const std::function<TriedValue(std::int64_t)>& probe)
      : range_(range), probe_(probe) {}

  std::int64_t last() const { return (range_.most - range_.least) / range_.step; }

  const TriedValue& at(std::int64_t number) {
    const auto [entry, is_new] = tried_.try_emplace(number);
    if (is_new) entry->second = probe_(range_.least + number * range_.step);
    return entry->second;
  }

  /// Returns the first number for which `is_beyond` is true. The search begins at `from`, for which
  /// `is_beyond` must be false. Returns nothing if `is_beyond` is also false for the last number.
  template <typename Beyond>
  std::optional<std::int64_t> first_beyond(std::int64_t from, const Beyond& is_beyond) {
    std::int64_t inside = from;
    std::int64_t distance = 1;
    while (inside < last() && !is_beyond(at(std::min(inside + distance, last())))) {
      inside = std::min(inside + distance, last());
      distance *= 2;
    }
    if (inside == last()) return std::nullopt;
    std::int64_t beyond = std::min(inside + distance, last());
    while (beyond - inside > 1) {
      const std::int64_t middle = inside + (beyond - inside) / 2;
      (is_beyond(at(middle)) ? beyond : inside) = middle;
    }
    return beyond;
  }

  std::vector<TriedValue> all() const {
    std::vector<TriedValue> values;
    values.reserve(tried_.size());
    for (const auto& [number, value] : tried_) values.push_back(value);
    return values;
  }

 private:
  const ValueRange& range_;
  const std::function<TriedValue(std::int64_t)>& probe_;
  std::map<std::int64_t, TriedValue> tried_;
};

}  // namespace

bool LargestValue::grows() const {
  const TriedValue* before = nullptr;
  for (const TriedValue& value : tried) {
    if (!value.refusal.empty()) continue;
    if (before != nullptr && value.peak_bytes < before->peak_bytes) return false;
    before = &value;
  }
  return true;
}

LargestValue largest_value(const ValueRange& range, const std::function<TriedValue(std::int64_t)>& probe) {
  Probes probes(range, probe);
  const auto is_accepted = [](const TriedValue& value) { return value.refusal.empty(); };
  std::optional<std::int64_t> first = 0;
  if (!is_accepted(probes.at(0))) first = probes.first_beyond(0, is_accepted);
  LargestValue found;
  if (!first || !probes.at(*first).fits()) {
    found.next = probes.at(first.value_or(0));
  } else {
    const auto next = probes.first_beyond(*first, [](const TriedValue& value) { return !value.fits(); });
    found.largest = probes.at(next ? *next - 1 : probes.last());
    if (next) found.next = probes.at(*next);
  }
  found.tried = probes.all();
  return found;
}

}  // namespace penstock
