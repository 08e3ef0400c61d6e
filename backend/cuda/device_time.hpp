#pragma once
// Converts times of a device's %globaltimer to the clock of a run.

#include <cstdint>
#include <functional>

#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A conversion from the device's timer to the run's clock. The constructor measures the difference to a few
/// microseconds. The two drift apart by a few parts in a million, so each run makes a new object.
class DeviceTime {
 public:
  /// Measures the difference with a few kernels on `stream` and waits for them. `scale` is the scale of the
  /// run's clock. Throws CudaError.
  DeviceTime(const Clock& clock, double scale, const StreamView& stream,
             const std::function<bool()>& stopped = {});

  /// Converts a time of the device's timer to the run's clock.
  Ns of(std::uint64_t moment) const;

 private:
  double scale_;
  Ns clock_ns_ = 0;           // time of the run's clock when the device's timer showed moment_
  std::uint64_t moment_ = 0;  // time of the device's timer at the comparison
};

}  // namespace penstock
