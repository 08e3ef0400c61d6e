#pragma once
// What a search knows so far, and which configurations may matter still.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/tuning/choice_values.hpp"

namespace penstock {

/// What a configuration takes, or takes at least.
struct Worth {
  std::int64_t time = 0;  ///< of a step, in device-nanoseconds
  Bytes bytes = 0;        ///< of its fullest device

  friend auto operator<=>(const Worth&, const Worth&) = default;
};

/// The best so far of the configurations with one value.
struct BestOfValue {
  std::optional<std::size_t> fitting{};
  Worth fitting_worth{};
  std::optional<std::size_t> fastest{};  ///< whether it fits or not
  std::int64_t fastest_time = std::numeric_limits<std::int64_t>::max();
};

class KnownWorth {
 public:
  /// Makes an account of which `top` first ones are wanted, on devices of which `usable` bytes may be used;
  /// `values` is the number of values.
  KnownWorth(std::size_t top, Bytes usable, std::size_t values)
      : top_(top), usable_(usable), values_(values) {}

  bool fits(Bytes bytes) const { return bytes <= usable_; }
  /// So many may fit; where they are fewer than the first ones, others are among those.
  void set_possible_fits(std::size_t count) { others_count_ = count < top_; }

  /// Whether a configuration that takes this at least could be among the first ones, on the front of time and
  /// memory, or the best with one of its values.
  bool may_matter(const ValueNumbers::Numbers& numbers, const Worth& least) const;

  /// The time of a configuration, whose peak may not be known.
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
  std::vector<std::int64_t> fitting_times_;  // of the first ones, ascending
  std::vector<std::int64_t> other_times_;
  std::vector<Worth> front_;
  std::vector<BestOfValue> values_;
};

}  // namespace penstock
