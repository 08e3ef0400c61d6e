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
// A refused value ends neither search, because larger values may be accepted: a number of nodes that does not
// divide the batch is refused, and twice as many nodes are not. Each tried value needs a simulation, so
// results are cached.

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

  /// Returns the first number above `from` that has a prediction. Looks at the next kMostRefusals numbers.
  std::optional<std::int64_t> accepted_above(std::int64_t from) {
    constexpr std::int64_t kMostRefusals = 64;
    for (std::int64_t number = from + 1; number <= std::min(from + kMostRefusals, last()); ++number) {
      if (at(number).refusal.empty()) return number;
    }
    return std::nullopt;
  }

  /// Returns the first number that fits, at doubling distances above `first`, which does not fit. Returns
  /// nothing as soon as a number needs at least as much memory as the one before it.
  std::optional<std::int64_t> fitting_above(std::int64_t first) {
    Bytes before = at(first).peak_bytes;
    std::int64_t number = first;
    for (std::int64_t distance = 1; number < last(); distance *= 2) {
      number = std::min(first + distance, last());
      const TriedValue& value = at(number);
      if (!value.refusal.empty()) continue;
      if (value.fits()) return number;
      if (value.peak_bytes >= before) break;
      before = value.peak_bytes;
    }
    return std::nullopt;
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
  // The number of times that the search goes on above refused values.
  constexpr int kMostGaps = 64;
  Probes probes(range, probe);
  const auto is_accepted = [](const TriedValue& value) { return value.refusal.empty(); };
  std::optional<std::int64_t> first = 0;
  if (!is_accepted(probes.at(0))) first = probes.first_beyond(0, is_accepted);
  LargestValue found;
  std::optional<std::int64_t> start = first;
  if (first && !probes.at(*first).fits()) start = probes.fitting_above(*first);
  if (!start) found.next = probes.at(first.value_or(0));
  for (int gaps = 0; start; ++gaps) {
    const auto next = probes.first_beyond(*start, [](const TriedValue& value) { return !value.fits(); });
    found.largest = probes.at(next ? *next - 1 : probes.last());
    found.next.reset();
    start.reset();
    if (!next) break;
    found.next = probes.at(*next);
    if (is_accepted(*found.next) || gaps == kMostGaps) break;
    const auto above = probes.accepted_above(*next);
    if (above && probes.at(*above).fits()) start = above;
    if (above && !start) found.next = probes.at(*above);
  }
  found.tried = probes.all();
  return found;
}

}  // namespace penstock
