#pragma once
// Constants of a device from measured training steps.

#include <span>
#include <string>
#include <vector>

#include "sim/measured/run_prices.hpp"

namespace penstock {

/// A configuration and what its step took.
struct TimedRun {
  const RunPrices* prices = nullptr;
  double measured_seconds = 0;  ///< > 0
};

struct FittedConstants {
  DeviceConstants constants;
  std::vector<std::string> fitted;  ///< names of those that were fitted; the others kept their prior
};

/// Least squares of log(predicted / measured) over the constants that the runs tell: sustained within 0.9
/// to 1.6, collectives 1 to 2.2, step_fraction 0 to 0.35. One that no run depends on keeps `prior`, and so
/// does one whose effect on the runs cannot be told from those before it; none is fitted without runs.
FittedConstants fit_constants(std::span<const TimedRun> runs, const DeviceConstants& prior);

}  // namespace penstock
