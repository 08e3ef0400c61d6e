#pragma once
// Defines the objective of a search for an order of actions, and the effort that the search may spend.

#include <array>
#include <cstdint>
#include <limits>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The length of an order, which a search tries to reduce.
enum class Objective : std::uint8_t {
  /// The longest time that any rank takes from its first start to its last end.
  span,
  /// The time from 0 to the last end of any rank. Late starts count, too.
  makespan,
};
template <>
inline constexpr auto kEnumWords<Objective> =
    std::to_array<EnumWord<Objective>>({{Objective::span, "span"}, {Objective::makespan, "makespan"}});

/// The effort of a search, counted in passes. Each pass builds the order once, so equal efforts give equal
/// programs on any machine. A time budget ends a search early, and then the result depends on the machine.
struct SearchEffort {
  /// The number of passes, at least 0. With 0 passes, the search returns the order that the rule constructs.
  std::int64_t passes = kDefaultPasses;
  /// The seed of the random draws.
  std::uint64_t seed = 1;
  /// The longest time of the search in seconds. With 0, only the number of passes limits the search.
  double budget_seconds = 0;

  static constexpr std::int64_t kDefaultPasses = 500;

  friend bool operator==(const SearchEffort&, const SearchEffort&) = default;
};

/// Returns an effort that is limited by time alone. Its number of passes is larger than any search reaches.
/// It is also so small that passes times actions fits in 64 bits.
inline SearchEffort with_budget(SearchEffort effort, double seconds) {
  effort.budget_seconds = seconds;
  effort.passes = std::numeric_limits<std::int32_t>::max();
  return effort;
}

}  // namespace penstock
