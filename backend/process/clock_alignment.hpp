#pragma once
// Puts the times of several hosts on one clock. The coordinator measures each rank's clock by round trips.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Largest accepted time: 146 years. No clock that counts from its host's start shows more, and the
/// difference of two such times fits into 64 bits.
inline constexpr Ns kLastNs = Ns{1} << 62;

/// The clock of a host as a process reports it. It is this machine's steady clock; tests change it to
/// simulate another host.
struct HostClock {
  std::string boot_id{};  ///< identifies the host's present boot; empty: this machine's
  Ns offset_ns = 0;       ///< how far it is ahead of this machine's clock
  double rate = 1;        ///< its speed relative to this machine's clock; > 0

  /// Convert between this clock and the machine's steady clock.
  Ns shown_at(Ns steady_ns) const;
  Ns steady_at(Ns shown_ns) const;
};

/// A question and its answer: `sent_ns` and `back_ns` by the asker's clock, `there_ns` by the other's.
struct RoundTrip {
  Ns sent_ns = 0;
  Ns there_ns = 0;
  Ns back_ns = 0;
};

/// The times of two clocks at one moment.
struct ClockReading {
  Ns here_ns = 0;
  Ns there_ns = 0;
  Ns error_ns = 0;  ///< the true `there_ns` differs by at most this
};
/// Returns the reading of a trip. The answer is taken to be given in the middle of the trip, so the error is
/// half of the trip.
ClockReading reading_of(const RoundTrip& trip);

/// Another host's clock between two readings. It is assumed to drift evenly.
struct AlignedClock {
  ClockReading before{};
  ClockReading after{};

  Ns here(Ns there_ns) const;
  /// Returns the largest error of here() between the readings.
  Ns error_ns() const;
};

/// The clocks of all ranks, as this process sees them.
class RankClocks {
 public:
  explicit RankClocks(std::int32_t ranks) : clocks_(static_cast<std::size_t>(ranks)) {}

  /// Marks the rank as being on another host. Until the first comparison its clock is unknown.
  void set_elsewhere(std::int32_t rank) { of(rank).elsewhere = true; }
  bool is_elsewhere(std::int32_t rank) const { return of(rank).elsewhere; }
  bool some_elsewhere() const;

  // --- comparing: a series of round trips with each rank elsewhere -----------------------------------

  void begin_series();
  /// Records that a question is sent to the rank at this moment.
  void ask(std::int32_t rank, Ns now_ns) { of(rank).asked_ns = now_ns; }
  /// Records the rank's answer. An answer that belongs to no open question is ignored. Returns true when the
  /// series has enough trips of the rank; the shortest one is used.
  bool answered(std::int32_t rank, const RoundTrip& trip);

  // --- what is known ---------------------------------------------------------------------------------

  /// Convert between the clock here and the rank's clock, by the last series.
  Ns there(std::int32_t rank, Ns here_ns) const;
  Ns here(std::int32_t rank, Ns there_ns) const;

  /// Sets the moment from which the ranks' times count (`origin_ns` here), and the `scale` by which they are
  /// divided.
  void begin_times(Ns origin_ns, double scale);
  /// Converts times that a rank has measured between the last two series to the clock here.
  void align(std::int32_t rank, std::vector<Ns>& times) const;
  /// Returns the largest possible difference between the clocks of two ranks, or nothing if all have one
  /// host.
  std::optional<Ns> error_ns() const;

 private:
  struct OfRank {
    bool elsewhere = false;
    AlignedClock clock{};
    std::int32_t trips = 0;  // trips of the present series
    std::optional<Ns> asked_ns{};
    Ns origin_ns = 0;  // by the rank's clock
  };
  OfRank& of(std::int32_t rank) { return clocks_[static_cast<std::size_t>(rank)]; }
  const OfRank& of(std::int32_t rank) const { return clocks_[static_cast<std::size_t>(rank)]; }

  std::vector<OfRank> clocks_;
  Ns origin_ns_ = 0;
  double scale_ = 1;
};

}  // namespace penstock
