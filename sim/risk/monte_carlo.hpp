#pragma once
// A prediction under noise: the same program many times over, each time with other durations.

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

/// What varies. All draws are functions of the seed, the trial and what they are drawn for.
struct Noise {
  /// Every compute action is multiplied by a factor drawn evenly from [1 - jitter, 1 + jitter]; 0 to 1.
  double jitter = 0;
  /// Chance of each rank, once a trial, to be a straggler: all its compute actions take `slowdown` times as
  /// long. 0 to 1.
  double straggler_chance = 0;
  double slowdown = 1.5;  ///< >= 1
  std::uint64_t seed = 1;
};

/// What came out, by makespan.
struct NoisyMakespans {
  Ns undisturbed_ns = 0;
  std::vector<Ns> sorted;  ///< one a trial, ascending
  double mean_ns() const;
  /// The smallest makespan that at least that part of the trials does not exceed (nearest rank); 0 < part
  /// <= 1.
  Ns percentile(double part) const;
};

/// How often, and by which engine.
struct Trials {
  std::int32_t count = 1000;  ///< >= 1
  Engine engine = Engine::automatic;
};

/// The durations of one trial: of each compute position, as laid out in `flat`. Messages and collectives keep
/// theirs.
WalkDurations disturbed(WalkDurations durations, const FlatProgram& flat, const Noise& noise,
                        std::uint64_t trial);

/// Why no trial can be trusted: noise makes compute actions so long that the 64 bits of nanoseconds may not
/// count them any more. Nothing where they do.
std::optional<std::string> noise_fault(const Experiment& experiment, const Noise& noise);

/// Runs the trials on all cores; equal input gives equal output on any number of them. Requires that
/// noise_fault() says nothing. Error: the program hangs.
tl::expected<NoisyMakespans, std::string> monte_carlo(const Experiment& experiment, const Noise& noise,
                                                      const Trials& trials);

}  // namespace penstock
