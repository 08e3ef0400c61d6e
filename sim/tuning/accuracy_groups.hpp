#pragma once
// Groups of configurations with predicted rates that differ by less than the error of predictions. `penstock
// tune` prints them.

#include <cstddef>
#include <vector>

#include "sim/measured/ratio_spread.hpp"
#include "sim/tuning/tune.hpp"

namespace penstock {

/// The groups of candidates. Rates within a group differ by at most twice the spread of errors.
struct AccuracyGroups {
  /// Spread of errors among the library's measured steps, with the devices' own constants.
  RatioSpread spread;
  /// group of each candidate: 0 for the best and all that are as good, then 1, 2, ...
  std::vector<std::size_t> groups;
};

/// Groups the report's candidates. A group has only candidates that fit, or only candidates that do not.
AccuracyGroups accuracy_groups(const TuneReport& report);

}  // namespace penstock
