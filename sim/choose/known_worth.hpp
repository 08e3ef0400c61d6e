#pragma once
// The best configurations that a search has found so far. They show which other configurations may still
// change the answer.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"

namespace penstock {

/// The time and memory of a configuration, or lower bounds of them.
struct Worth {
  std::int64_t time = 0;  ///< time of a step times the number of devices, in nanoseconds
  Bytes bytes = 0;        ///< bytes on the fullest device

  friend auto operator<=>(const Worth&, const Worth&) = default;
};

/// The best configurations so far with one value of a choice, such as tensor = 8.
struct BestOfValue {
  std::optional<std::size_t> fitting{};
  Worth fitting_worth{};
  std::optional<std::size_t> fastest{};  ///< the fastest configuration, even if it does not fit in memory
  std::int64_t fastest_time = std::numeric_limits<std::int64_t>::max();
};

class KnownWorth {
 public:
  /// Creates an empty record. `top` is the number of configurations in the answer. `usable` is the bytes of
  /// a device that a configuration may use. `values` is the number of values of all choices together.
  KnownWorth(std::size_t top, Bytes usable, std::size_t values)
      : top_(top), usable_(usable), values_(values) {}

  std::size_t top() const { return top_; }
  bool fits(Bytes bytes) const { return bytes <= usable_; }
  /// Records how many configurations may fit in memory. If there are more than `top`, `count` may be `top`.
  /// If `count` is below `top`, some of the first configurations of the answer do not fit.
  void set_possible_fits(std::size_t count) { others_count_ = count < top_; }

  /// Returns true if a configuration with this lower bound may still be in the answer. It may be one of the
  /// fastest, on the Pareto front of time and memory, or the best with one of its values.
  bool may_matter(const ValueNumbers::Numbers& numbers, const Worth& least) const;

  /// Records the time of the configuration with number `number`. Its peak memory may be unknown.
  void note_time(std::size_t number, const ValueNumbers::Numbers& numbers, std::int64_t time);
  void note(std::size_t number, const ValueNumbers::Numbers& numbers, const Worth& worth);

  const BestOfValue& of_value(std::size_t value) const { return values_[value]; }

 private:
  bool may_be_first(const Worth& least) const;
  bool may_be_on_front(const Worth& least) const;
  bool may_be_best_of_value(const ValueNumbers::Numbers& numbers, const Worth& least) const;
  void add_to_front(const Worth& worth);

  std::size_t top_;
  Bytes usable_;
  bool others_count_ = false;
  std::vector<std::int64_t> fitting_times_;  // shortest times of configurations that fit, ascending
  std::vector<std::int64_t> other_times_;
  std::vector<Worth> front_;
  std::vector<BestOfValue> values_;
};

}  // namespace penstock
