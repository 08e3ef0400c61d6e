// The run's clock. It reads the host's monotonic clock and divides the elapsed time by the scale.
// hold_for() sleeps and does not spin, because there may be more workers than cores. It sleeps for at most
// 50 ms at a time, so that it notices a stop. It computes the end from the start, so that late wake-ups do
// not add up. By default, Linux may delay timers by 50 us to save wake-ups. Workers set this delay to 1
// ns.

#include "backend/executor/clock.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stop_token>
#include <thread>

#ifdef __linux__
#include <linux/prctl.h>
#include <sys/prctl.h>
#endif

#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr nanoseconds kLongestNap = std::chrono::milliseconds(50);

/// Converts a time on the run's clock to host time. The result is limited to a century, so that it does not
/// overflow 64 bits of nanoseconds when it is added to the present time.
nanoseconds held_at(double scale, Ns time_ns) {
  constexpr nanoseconds kCentury = std::chrono::hours(24 * 365 * 100);
  const double held = static_cast<double>(time_ns) * scale;
  return held < static_cast<double>(kCentury.count()) ? nanoseconds(std::llround(held)) : kCentury;
}

}  // namespace

SteadyClock::SteadyClock(double scale) : start_(steady_clock::now()), scale_(scale) {}

Ns SteadyClock::now_ns() const {
  const nanoseconds elapsed = steady_clock::now() - start_;
  return scale_ == 1 ? elapsed.count() : std::llround(static_cast<double>(elapsed.count()) / scale_);
}

void SteadyClock::hold_for(Ns duration_ns, const std::stop_token& stop) const {
  const auto begin = steady_clock::now();
  const nanoseconds whole = held_at(scale_, duration_ns);
  for (nanoseconds left = whole; left.count() > 0 && !stop.stop_requested();
       left = whole - (steady_clock::now() - begin)) {
    std::this_thread::sleep_for(std::min(left, kLongestNap));
  }
}

steady_clock::time_point SteadyClock::moment_of(Ns time_ns) const {
  return start_ + held_at(scale_, time_ns);
}

void wake_this_thread_promptly() {
#ifdef __linux__
  prctl(PR_SET_TIMERSLACK, 1UL);
#endif
}

}  // namespace penstock
