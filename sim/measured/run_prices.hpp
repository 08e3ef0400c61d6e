#pragma once
// One measured configuration, prepared once and then timed for any constants of its device.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/prepare/device_prices.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// The constants of a device that can be fitted.
struct DeviceConstants {
  double sustained = 1;      ///< slowdown of matrix products (DeviceType::sustained)
  double collectives = 1;    ///< slowdown of collectives that are not overlapped
  double step_fraction = 0;  ///< part of the gradients' reduction over the network that adds to the step
  /// Milliseconds of a layer of experts, both passes, that no known term explains.
  double expert_layer_ms = 0;

  friend bool operator==(const DeviceConstants&, const DeviceConstants&) = default;
};
/// Returns the constants of the scenario's device at its precision.
DeviceConstants own_constants(const Scenario& scenario);

/// A configuration whose program is compiled.
class RunPrices {
 public:
  /// Prepares the scenario and compiles its program. Errors: those of prepare(), and a program that hangs.
  static tl::expected<RunPrices, std::string> make(const Scenario& scenario);

  /// Returns the seconds of one training step.
  double step_seconds(const DeviceConstants& constants) const;
  /// Returns the peak bytes of the fullest device. They do not depend on the constants.
  Bytes peak_bytes() const { return peak_bytes_; }

 private:
  DevicePrices prices_;
  Experiment experiment_;
  Tape tape_;
  Bytes peak_bytes_ = 0;
};

}  // namespace penstock
