#pragma once
// Converts the times of several hosts to one clock. The coordinator measures the clock of each other host by
// round trips of messages.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The largest time that is accepted, 146 years. A clock that starts with its host never shows more. The
/// difference of two such times fits into 64 bits.
inline constexpr Ns kLastNs = Ns{1} << 62;

/// The clock that this process uses as the clock of its host. By default, it is the steady clock of this
/// machine. Tests change it to simulate another host.
struct HostClock {
  std::string boot_id{};  ///< identifier of the host's present boot; empty means this machine's
  Ns offset_ns = 0;       ///< reading of this clock when this machine's steady clock shows 0
  double rate = 1;        ///< speed relative to this machine's steady clock; greater than 0

  /// Converts a time of the machine's steady clock to the time that this clock shows. steady_at() converts in
  /// the opposite direction.
  Ns shown_at(Ns steady_ns) const;
  Ns steady_at(Ns shown_ns) const;
};

/// The times at which a clock question was sent, answered and returned. The asking host measures `sent_ns`
/// and `back_ns`, and the other host measures `there_ns`.
struct RoundTrip {
  Ns sent_ns = 0;
  Ns there_ns = 0;
  Ns back_ns = 0;
};

/// The times that the clocks of this host (`here_ns`) and of another host (`there_ns`) show at the same
/// moment.
struct ClockReading {
  Ns here_ns = 0;
  Ns there_ns = 0;
  Ns error_ns = 0;  ///< largest possible difference between `there_ns` and the true time
};
/// Returns the times that both clocks showed when the other host answered. It assumes that this was in the
/// middle of the round trip, so the error is at most half of the trip.
ClockReading reading_of(const RoundTrip& trip);

/// The clock of another host between two readings, `before` and `after`. Its drift between them is assumed
/// to be constant.
struct AlignedClock {
  ClockReading before{};
  ClockReading after{};

  Ns here(Ns there_ns) const;
  /// Returns the largest error of here() for times between the two readings.
  Ns error_ns() const;
};

/// The clocks of all ranks, relative to the clock of this process.
class RankClocks {
 public:
  explicit RankClocks(std::int32_t ranks) : clocks_(static_cast<std::size_t>(ranks)) {}

  /// Marks the rank as running on another host. Its clock is unknown until the first series of round trips.
  void set_elsewhere(std::int32_t rank) { of(rank).elsewhere = true; }
  bool is_elsewhere(std::int32_t rank) const { return of(rank).elsewhere; }
  bool some_elsewhere() const;

  // --- a series of round trips with each rank on another host ----------------------------------------

  void begin_series();
  /// Records that a clock question is sent to the rank at `now_ns`.
  void ask(std::int32_t rank, Ns now_ns) { of(rank).asked_ns = now_ns; }
  /// Records the rank's answer to a clock question. Ignores an answer that belongs to no open question.
  /// Returns true when the series has enough round trips with this rank. Only the shortest round trip is
  /// used.
  bool answered(std::int32_t rank, const RoundTrip& trip);

  // --- results of the series -------------------------------------------------------------------------

  /// Returns the time of the rank's clock that belongs to a time of this process's clock, according to the
  /// last series of round trips. here() converts in the opposite direction.
  Ns there(std::int32_t rank, Ns here_ns) const;
  Ns here(std::int32_t rank, Ns there_ns) const;

  /// Sets how the ranks measure times of a run. A time of the run is the time since `origin_ns` of this
  /// process's clock, divided by `scale`.
  void begin_times(Ns origin_ns, double scale);
  /// Converts times of a run to this process's clock. The rank has measured them between the last two series
  /// of round trips.
  void align(std::int32_t rank, std::vector<Ns>& times) const;
  /// Returns the largest possible error between the clocks of two ranks after the conversion. Returns
  /// nothing if all ranks run on one host.
  std::optional<Ns> error_ns() const;

 private:
  struct OfRank {
    bool elsewhere = false;
    AlignedClock clock{};
    std::int32_t trips = 0;  // number of round trips so far in the present series of clock questions
    std::optional<Ns> asked_ns{};
    Ns origin_ns = 0;  // origin of the run's times by the rank's clock
  };
  OfRank& of(std::int32_t rank) { return clocks_[static_cast<std::size_t>(rank)]; }
  const OfRank& of(std::int32_t rank) const { return clocks_[static_cast<std::size_t>(rank)]; }

  std::vector<OfRank> clocks_;
  Ns origin_ns_ = 0;
  double scale_ = 1;
};

}  // namespace penstock
