// Cristian's round trips (Probabilistic clock synchronization, 1989), before and after a run:
//
//   here    sent ------------------ back          the answer lies between the two: the middle is at most
//                \                /               half of the trip off, whatever part of it either way took
//   there         `---- there ---'
//
// Of a series the shortest trip counts. Two crystals drift apart evenly over a run, so that a moment between
// two readings lies on the straight line through them, and is as right as the worse of the two.

#include "backend/process/clock_alignment.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// So many that one of them meets no queue on its way, as a rule. The shortest counts.
constexpr std::int32_t kTrips = 16;

/// 36 years at most: what a rank says of its clock may be anything, and sums of it must not pass 64 bits.
Ns rounded(double ns) {
  constexpr auto kMost = static_cast<double>(Ns{1} << 60);
  return std::llround(std::clamp(ns, -kMost, kMost));
}

/// `ns` times a factor near 1, exact where it is 1.
Ns stretched(Ns ns, double factor) { return ns + rounded(static_cast<double>(ns) * (factor - 1)); }

}  // namespace

Ns HostClock::shown_at(Ns steady_ns) const { return offset_ns + stretched(steady_ns, rate); }
Ns HostClock::steady_at(Ns shown_ns) const { return stretched(shown_ns - offset_ns, 1 / rate); }

ClockReading reading_of(const RoundTrip& trip) {
  // Rounded up, so that what is said of the error is never too little.
  const Ns half = (trip.back_ns - trip.sent_ns + 1) / 2;
  return {.here_ns = trip.sent_ns + half, .there_ns = trip.there_ns, .error_ns = half};
}

Ns AlignedClock::here(Ns there_ns) const {
  const Ns since = there_ns - before.there_ns;
  const Ns between = after.there_ns - before.there_ns;
  // One series alone, or two at one moment, say nothing of the rate.
  if (between <= 0) return after.here_ns + (there_ns - after.there_ns);
  const double rate = static_cast<double>(after.here_ns - before.here_ns) / static_cast<double>(between);
  return before.here_ns + stretched(since, rate);
}

Ns AlignedClock::error_ns() const { return std::max(before.error_ns, after.error_ns); }

bool RankClocks::some_elsewhere() const { return std::ranges::any_of(clocks_, &OfRank::elsewhere); }

void RankClocks::begin_series() {
  for (OfRank& rank : clocks_) {
    // What was the end of the last run is the beginning of this one.
    rank.clock.before = rank.clock.after;
    rank.trips = 0;
    rank.asked_ns.reset();
  }
}

bool RankClocks::answered(std::int32_t rank, const RoundTrip& trip) {
  OfRank& asked = of(rank);
  // An answer to an earlier question, or to none, says nothing of this trip.
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
    // Its times are since its origin, and divided by the scale: both are undone before clocks are compared.
    const Ns there_ns = measured.origin_ns + rounded(static_cast<double>(time) * scale_);
    const Ns since = measured.clock.here(there_ns) - origin_ns_;
    time = std::llround(std::clamp(static_cast<double>(since) / scale_, 0.0, static_cast<double>(kLastNs)));
  }
}

std::optional<Ns> RankClocks::error_ns() const {
  if (!some_elsewhere()) return std::nullopt;
  Ns worst = 0;
  Ns second = 0;  // the clock here is exact
  for (const OfRank& rank : clocks_) {
    if (!rank.elsewhere) continue;
    const Ns error = rank.clock.error_ns();
    // Two ranks are apart by at most the two largest errors together.
    second = std::max(second, std::min(worst, error));
    worst = std::max(worst, error);
  }
  return worst + second;
}

}  // namespace penstock
