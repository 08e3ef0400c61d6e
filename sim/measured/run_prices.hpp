#pragma once
// One measured configuration, prepared once and timed for any constants of its device.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/prepare/device_prices.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// What may be fitted of a device.
struct DeviceConstants {
  double sustained = 1;      ///< of matrix products (DeviceType::sustained)
  double collectives = 1;    ///< that are not overlapped
  double step_fraction = 0;  ///< of the gradients' reduction over the network, once a step

  friend bool operator==(const DeviceConstants&, const DeviceConstants&) = default;
};
/// Those of the scenario's own device at its precision.
DeviceConstants own_constants(const Scenario& scenario);

/// A configuration whose program is compiled.
class RunPrices {
 public:
  /// Errors: those of prepare(), and a program that hangs.
  static tl::expected<RunPrices, std::string> make(const Scenario& scenario);

  /// Seconds of a step.
  double step_seconds(const DeviceConstants& constants) const;
  /// Peak bytes of the fullest device, which no constant changes.
  Bytes peak_bytes() const { return peak_bytes_; }

 private:
  DevicePrices prices_;
  Experiment experiment_;
  Tape tape_;
  Bytes peak_bytes_ = 0;
};

}  // namespace penstock
