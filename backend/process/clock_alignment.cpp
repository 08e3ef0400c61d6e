// Compares the clocks of several hosts before and after a run, by round trips (Cristian, Probabilistic clock
// synchronization, 1989):
//
//     here    sent ------------------ back          the other host answered between `sent` and `back`, so
//                  \                /               the middle of the two differs from the moment of the
//     there         `---- there ---'                answer by at most half of the trip
//
// Only the shortest trip of a series is used. Quartz clocks drift apart at a constant rate during a run. A
// moment between two readings is therefore interpolated on a straight line. Its error is at most the larger
// one of the two readings' errors. Tests: tests/backend/clock_alignment_test.cpp.

#include "backend/process/clock_alignment.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// The number of round trips in a series of clock questions. With so many trips, usually at least one is not
/// delayed by queues on the network.
constexpr std::int32_t kTrips = 16;

/// Rounds a time and limits it to 36 years in both directions. A rank may report any time, and sums of such
/// times must fit into 64 bits.
Ns rounded(double ns) {
  constexpr auto kMost = static_cast<double>(Ns{1} << 60);
  return std::llround(std::clamp(ns, -kMost, kMost));
}

/// Returns the duration `ns` times `factor`, which is near 1. The result is exact if the factor is 1.
Ns stretched(Ns ns, double factor) { return ns + rounded(static_cast<double>(ns) * (factor - 1)); }

}  // namespace

Ns HostClock::shown_at(Ns steady_ns) const { return offset_ns + stretched(steady_ns, rate); }
Ns HostClock::steady_at(Ns shown_ns) const { return stretched(shown_ns - offset_ns, 1 / rate); }

ClockReading reading_of(const RoundTrip& trip) {
  // The half is rounded up, so that the stated error is never smaller than the true one.
  const Ns half = (trip.back_ns - trip.sent_ns + 1) / 2;
  return {.here_ns = trip.sent_ns + half, .there_ns = trip.there_ns, .error_ns = half};
}

Ns AlignedClock::here(Ns there_ns) const {
  const Ns since = there_ns - before.there_ns;
  const Ns between = after.there_ns - before.there_ns;
  // If there is only one series, or two at the same moment, the rate is unknown and assumed to be 1.
  if (between <= 0) return after.here_ns + (there_ns - after.there_ns);
  const double rate = static_cast<double>(after.here_ns - before.here_ns) / static_cast<double>(between);
  return before.here_ns + stretched(since, rate);
}

Ns AlignedClock::error_ns() const { return std::max(before.error_ns, after.error_ns); }

bool RankClocks::some_elsewhere() const { return std::ranges::any_of(clocks_, &OfRank::elsewhere); }

void RankClocks::begin_series() {
  for (OfRank& rank : clocks_) {
    // The last series of the previous run also serves as the first series of the next run.
    rank.clock.before = rank.clock.after;
    rank.trips = 0;
    rank.asked_ns.reset();
  }
}

bool RankClocks::answered(std::int32_t rank, const RoundTrip& trip) {
  OfRank& asked = of(rank);
  // An answer is ignored if it does not belong to the last clock question of this rank.
  if (!asked.elsewhere || asked.asked_ns != trip.sent_ns) return false;
  asked.asked_ns.reset();
  const ClockReading reading = reading_of(trip);
  if (asked.trips++ == 0 || reading.error_ns < asked.clock.after.error_ns) asked.clock.after = reading;
  return asked.trips == kTrips;
}

Ns RankClocks::there(std::int32_t rank, Ns here_ns) const {
  const ClockReading& last = of(rank).clock.after;
  return here_ns + (last.there_ns - last.here_ns);
}

Ns RankClocks::here(std::int32_t rank, Ns there_ns) const {
  const ClockReading& last = of(rank).clock.after;
  return there_ns - (last.there_ns - last.here_ns);
}

void RankClocks::begin_times(Ns origin_ns, double scale) {
  origin_ns_ = origin_ns;
  scale_ = scale;
  for (std::int32_t rank = 0; rank < std::ssize(clocks_); ++rank) of(rank).origin_ns = there(rank, origin_ns);
}

void RankClocks::align(std::int32_t rank, std::vector<Ns>& times) const {
  const OfRank& measured = of(rank);
  if (!measured.elsewhere) return;
  for (Ns& time : times) {
    // The rank has subtracted its origin from the time and divided by the scale. So the time is first
    // multiplied by the scale, and the origin is added again.
    const Ns there_ns = measured.origin_ns + rounded(static_cast<double>(time) * scale_);
    const Ns since = measured.clock.here(there_ns) - origin_ns_;
    time = std::llround(std::clamp(static_cast<double>(since) / scale_, 0.0, static_cast<double>(kLastNs)));
  }
}

std::optional<Ns> RankClocks::error_ns() const {
  if (!some_elsewhere()) return std::nullopt;
  Ns worst = 0;
  Ns second = 0;  // second largest error; the clock of this host has error 0
  for (const OfRank& rank : clocks_) {
    if (!rank.elsewhere) continue;
    const Ns error = rank.clock.error_ns();
    // The clocks of two ranks differ by at most the sum of the two largest errors.
    second = std::max(second, std::min(worst, error));
    worst = std::max(worst, error);
  }
  return worst + second;
}

}  // namespace penstock
