#pragma once
// The distribution of a makespan under noise: the same program is timed many times, each time with other
// durations.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

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

}  // namespace penstock
