// Compares the device's timer with the host's clock. A kernel records the device's time between two readings
// of the host's clock. The try with the shortest time between the two readings is used. The kernel is assumed
// to run in the middle:
//
//     host     before ---------------- after        the error is at most half of the time between them
//     device            stamp

#include "backend/cuda/device_time.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

// The number of tries. The first ones are slow, because they load the kernel and wake the GPU.
constexpr int kTries = 20;
constexpr std::chrono::seconds kMostForAll(10);

}  // namespace

DeviceTime::DeviceTime(const Clock& clock, double scale, const StreamView& stream,
                       const std::function<bool()>& stopped)
    : scale_(scale) {
  const auto until = std::chrono::steady_clock::now() + kMostForAll;
  use_device(stream.device);
  const PinnedMoments moments(1);
  CudaEvent written(stream.device);
  Ns narrowest = std::numeric_limits<Ns>::max();
  for (int i = 0; i < kTries; ++i) {
    const Ns before = clock.now_ns();
    launch_stamp(moments.slot(0), stream.stream);
    written.record(stream);
    // The thread polls without sleeping, because a sleep would add to the error.
    watch(written, {.stopped = stopped, .deadline = until - std::chrono::steady_clock::now()});
    const Ns after = clock.now_ns();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    clock_ns_ = before + (after - before) / 2;
    moment_ = moments.moment(0);
  }
}

Ns DeviceTime::of(std::uint64_t moment) const {
  // The difference is signed, because `moment` may be earlier than moment_.
  const auto later = static_cast<std::int64_t>(moment - moment_);
  return clock_ns_ + std::llround(static_cast<double>(later) / scale_);
}

}  // namespace penstock
