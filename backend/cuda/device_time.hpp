#pragma once
// Converts a device's %globaltimer to the clock of a run.

#include <cstdint>
#include <functional>

#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The relation between the two clocks, measured to a few microseconds at construction. They drift apart by
/// some parts in a million, so each run makes a new object.
class DeviceTime {
 public:
  /// Compares the clocks with a few kernels on `stream`, and waits for them. `scale` is that of the run's
  /// clock. Throws CudaError.
  DeviceTime(const Clock& clock, double scale, const StreamView& stream,
             const std::function<bool()>& stopped = {});

  /// The moment on the run's clock.
  Ns of(std::uint64_t moment) const;

 private:
  double scale_;
  Ns clock_ns_ = 0;           // time of the run's clock at moment_
  std::uint64_t moment_ = 0;  // time of the device
};

}  // namespace penstock
