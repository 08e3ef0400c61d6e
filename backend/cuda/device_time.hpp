#pragma once
// A device's %globaltimer on the clock of a run.

#include <cstdint>
#include <functional>

#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The two clocks are compared when it is made, to a few microseconds; they drift apart by some parts in a
/// million, so that it is made anew for each run.
class DeviceTime {
 public:
  /// `scale` is that of the run's clock. Waits for a few kernels on `stream`. Throws CudaError.
  DeviceTime(const Clock& clock, double scale, const StreamView& stream,
             const std::function<bool()>& stopped = {});

  /// The moment on the run's clock.
  Ns of(std::uint64_t moment) const;

 private:
  double scale_;
  Ns clock_ns_ = 0;           // on the run's clock, at the moment
  std::uint64_t moment_ = 0;  // of the device
};

}  // namespace penstock
