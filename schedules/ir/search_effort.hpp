#pragma once
// What a schedule that is searched is searched for, and how long.

#include <array>
#include <cstdint>
#include <limits>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// What the length of an order is.
enum class Objective : std::uint8_t {
  span,      ///< of the rank that takes longest from its first start to its last end
  makespan,  ///< from 0 to the last end: late starts count, too
};
template <>
inline constexpr auto kEnumWords<Objective> =
    std::to_array<EnumWord<Objective>>({{Objective::span, "span"}, {Objective::makespan, "makespan"}});

/// Counted in passes, each of which builds the order once, so that equal efforts give equal programs on any
/// machine. A budget of time ends a search early, and another machine may end it elsewhere.
struct SearchEffort {
  std::int64_t passes = kDefaultPasses;  ///< >= 0; 0: the order that the rule constructs
  std::uint64_t seed = 1;
  double budget_seconds = 0;  ///< 0: no end before the passes are made

  static constexpr std::int64_t kDefaultPasses = 500;

  friend bool operator==(const SearchEffort&, const SearchEffort&) = default;
};

/// With as many passes as fit into the time: more than any time allows, and few enough that passes times the
/// actions of a pass stay within 64 bits.
inline SearchEffort with_budget(SearchEffort effort, double seconds) {
  effort.budget_seconds = seconds;
  effort.passes = std::numeric_limits<std::int32_t>::max();
  return effort;
}

}  // namespace penstock
