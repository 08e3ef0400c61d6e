#pragma once
// Which configurations predictions can tell apart. Printed by `penstock tune`.

#include <cstddef>
#include <vector>

#include "sim/measured/ratio_spread.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// Candidates that are nearer to each other than twice the spread of errors.
struct ToldApart {
  RatioSpread spread;               ///< among the library's measured steps, with the devices' own constants
  std::vector<std::size_t> groups;  ///< by candidate: 0 for the best and all that are as good, then 1, ...
};

/// Groups the report's candidates. Those that fit and those that do not are never in one.
ToldApart told_apart(const TuneReport& report);

}  // namespace penstock
