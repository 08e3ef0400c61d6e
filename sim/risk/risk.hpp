#pragma once
// Predicts the effects of noise and of failures, for `penstock risk`. Noise: the program is timed many times
// with other durations, which gives a distribution of makespans. Failures: the part of a cluster's time that
// becomes useful work.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/engines.hpp"

namespace penstock {

/// The sources of noise. Each random number is a function of the seed, the trial, and the rank or action that
/// it is for.
struct Noise {
  /// Half-width of the noise. The duration of every compute action is multiplied by a factor drawn uniformly
  /// from [1 - jitter, 1 + jitter]. 0 to 1.
  double jitter = 0;
  /// Probability, in each trial and for each rank, that the rank is a straggler. All compute actions of a
  /// straggler take `slowdown` times as long. 0 to 1.
  double straggler_chance = 0;
  double slowdown = 1.5;  ///< factor on the durations of a straggler, >= 1
  std::uint64_t seed = 1;
};

/// The makespans of all trials.
struct NoisyMakespans {
  Ns undisturbed_ns = 0;
  std::vector<Ns> sorted;  ///< makespans of the trials, ascending
  double mean_ns() const;
  /// Returns the smallest makespan that at least the given part of the trials does not exceed (nearest-rank
  /// method). Requires 0 < part <= 1.
  Ns percentile(double part) const;
};

/// The number of trials, and the engine that times them.
struct Trials {
  std::int32_t count = 1000;  ///< number of trials, >= 1
  Engine engine = Engine::automatic;
};

/// Returns the durations of one trial. Only compute actions change, at their positions in `flat`; messages
/// and collectives retain their durations.
WalkDurations disturbed(WalkDurations durations, const FlatProgram& flat, const Noise& noise,
                        std::uint64_t trial);

/// Returns an error message if noise may make compute actions so long that 64 bits of nanoseconds overflow.
/// Otherwise returns nothing.
std::optional<std::string> noise_fault(const Experiment& experiment, const Noise& noise);

/// Runs the trials on all cores. Equal input gives equal output on any number of cores. Requires that
/// noise_fault() returns nothing. Returns an error if the program hangs.
tl::expected<NoisyMakespans, std::string> monte_carlo(const Experiment& experiment, const Noise& noise,
                                                      const Trials& trials);

// The part of a cluster's time that becomes useful work if devices fail and checkpoints are saved.

/// A job on devices that fail at random. Each device fails independently and at a constant rate. All times
/// are in seconds.
struct Failures {
  double device_mtbf = 0;  ///< mean time between two failures of one device; > 0
  double devices = 1;      ///< number of devices, >= 1; a failure of any one stops the job
  double save = 0;         ///< time to save one checkpoint, during which no work is done; >= 0
  double restart = 0;      ///< time from a failure until the job continues from the last checkpoint; >= 0
};

/// Returns the part of the time that becomes retained work, with a checkpoint after every `interval` seconds
/// of work (>= 0). Let t = interval, M = the cluster's mean time between failures, C = save and R = restart.
/// Then the part is t / (M e^(R/M) (e^((t+C)/M) - 1)). If saving takes no time, an interval of 0 gives the
/// limit of the formula. Failures may also happen during saving and restarting (Daly, FGCS 22, 2006, section
/// 3).
double goodput(const Failures& failures, double interval);

/// Returns the interval with the highest goodput, to a relative precision of 1e-6. It is about sqrt(2 C M) if
/// C is much smaller than M (Young, CACM 17, 1974), and 0 if saving takes no time.
double best_interval(const Failures& failures);

}  // namespace penstock
