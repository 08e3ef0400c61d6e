#pragma once
// Fits constants of a device to measured training steps.

#include <span>
#include <string>
#include <vector>

#include "sim/measured/run_prices.hpp"

namespace penstock {

/// A configuration and the measured time of its step.
struct TimedRun {
  const RunPrices* prices = nullptr;
  double measured_seconds = 0;  ///< > 0
};

struct FittedConstants {
  DeviceConstants constants;
  /// Names of the constants that were fitted; the others have their values of `prior`.
  std::vector<std::string> fitted;
};

/// Fits constants by least squares of log(predicted / measured). The bounds are 0.9 to 1.6 for `sustained`, 1
/// to 2.2 for `collectives`, 0 to 0.35 for `step_fraction` and 0 to 5 ms for `expert_layer_ms`. A constant
/// retains its value of `prior` if no run depends on it, or if its effect cannot be separated from that of
/// the constants before it. Without runs nothing is fitted.
FittedConstants fit_constants(std::span<const TimedRun> runs, const DeviceConstants& prior);

/// Like fit_constants(), for `expert_layer_ms` alone. The other constants retain their values of `prior`.
FittedConstants fit_expert_layer(std::span<const TimedRun> runs, const DeviceConstants& prior);

}  // namespace penstock
