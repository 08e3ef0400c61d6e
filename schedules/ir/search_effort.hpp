#pragma once
// The goal of a search for an order of actions, and its effort.

#include <array>
#include <cstdint>
#include <limits>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The length of an order that a search makes shorter.
enum class Objective : std::uint8_t {
  /// The span of the rank that takes longest from its first start to its last end.
  span,
  /// The time from 0 to the last end, in which late starts count, too.
  makespan,
};
template <>
inline constexpr auto kEnumWords<Objective> =
    std::to_array<EnumWord<Objective>>({{Objective::span, "span"}, {Objective::makespan, "makespan"}});

/// The effort of a search, counted in passes. Each pass builds the order once, so that equal efforts give
/// equal programs on any machine. A budget of time ends a search early, at a point that depends on the
/// machine.
struct SearchEffort {
  /// The number of passes, at least 0. With 0 passes the order is the one that the rule constructs.
  std::int64_t passes = kDefaultPasses;
  /// The seed of the random draws.
  std::uint64_t seed = 1;
  /// The longest time of the search; 0 means that only the number of passes ends it.
  double budget_seconds = 0;

  static constexpr std::int64_t kDefaultPasses = 500;

  friend bool operator==(const SearchEffort&, const SearchEffort&) = default;
};

/// Returns an effort that ends after a time. Its number of passes is larger than any time allows, but passes
/// times actions stay within 64 bits.
inline SearchEffort with_budget(SearchEffort effort, double seconds) {
  effort.budget_seconds = seconds;
  effort.passes = std::numeric_limits<std::int32_t>::max();
  return effort;
}

}  // namespace penstock
