#pragma once
// The clocks of several hosts as one: what the coordinator of a run knows of each rank's, by round trips.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// 146 years: no clock that counts from its host's start shows more, nor does a run take so long. Two of them
/// can be taken from each other.
inline constexpr Ns kLastNs = Ns{1} << 62;

/// What a process tells others of its host's clock: this machine's steady clock, unless somebody has it
/// otherwise to see what becomes of it.
struct HostClock {
  std::string boot_id{};  ///< of the host since it was started; empty: this machine's
  Ns offset_ns = 0;       ///< ahead of this machine's
  double rate = 1;        ///< > 0: how fast it runs beside this machine's

  /// What it shows when this machine's steady clock shows `steady_ns`, and the other way round.
  Ns shown_at(Ns steady_ns) const;
  Ns steady_at(Ns shown_ns) const;
};

/// A question and its answer: sent and back by the asker's clock, between them the other's.
struct RoundTrip {
  Ns sent_ns = 0;
  Ns there_ns = 0;
  Ns back_ns = 0;
};

/// Two clocks at one moment.
struct ClockReading {
  Ns here_ns = 0;
  Ns there_ns = 0;
  Ns error_ns = 0;  ///< the other clock showed `there_ns` that much earlier or later, at most
};
/// The answer was given at some moment of the trip: taken to be its middle, at most half of the trip off.
ClockReading reading_of(const RoundTrip& trip);

/// Another host's clock between two readings, where it gains or loses evenly.
struct AlignedClock {
  ClockReading before{};
  ClockReading after{};

  Ns here(Ns there_ns) const;
  /// Of here() between the readings.
  Ns error_ns() const;
};

/// The clocks of all ranks, seen from one.
class RankClocks {
 public:
  explicit RankClocks(std::int32_t ranks) : clocks_(static_cast<std::size_t>(ranks)) {}

  /// The rank's host is another one: until it has been compared nothing is known of its clock.
  void set_elsewhere(std::int32_t rank) { of(rank).elsewhere = true; }
  bool is_elsewhere(std::int32_t rank) const { return of(rank).elsewhere; }
  bool some_elsewhere() const;

  // --- comparing: a series of round trips with each rank elsewhere -----------------------------------

  void begin_series();
  /// A question to the rank is sent at that moment.
  void ask(std::int32_t rank, Ns now_ns) { of(rank).asked_ns = now_ns; }
  /// Its answer to the question of `sent_ns`. What answers no open question is not counted. True when the
  /// series has all it needs of the rank: the trip that was shortest counts.
  bool answered(std::int32_t rank, const RoundTrip& trip);

  // --- what is known ---------------------------------------------------------------------------------

  /// By the last series.
  Ns there(std::int32_t rank, Ns here_ns) const;
  Ns here(std::int32_t rank, Ns there_ns) const;

  /// The ranks' times count from one moment, which is `origin_ns` here, and are divided by `scale`.
  void begin_times(Ns origin_ns, double scale);
  /// What a rank has measured, as the clock here would have shown it: between the last two series.
  void align(std::int32_t rank, std::vector<Ns>& times) const;
  /// How far apart the clocks of two ranks may have been, at most; nothing where all have one host.
  std::optional<Ns> error_ns() const;

 private:
  struct OfRank {
    bool elsewhere = false;
    AlignedClock clock{};
    std::int32_t trips = 0;  // of the series
    std::optional<Ns> asked_ns{};
    Ns origin_ns = 0;  // by its own clock
  };
  OfRank& of(std::int32_t rank) { return clocks_[static_cast<std::size_t>(rank)]; }
  const OfRank& of(std::int32_t rank) const { return clocks_[static_cast<std::size_t>(rank)]; }

  std::vector<OfRank> clocks_;
  Ns origin_ns_ = 0;
  double scale_ = 1;
};

}  // namespace penstock
