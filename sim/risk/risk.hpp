#pragma once
// Predicts the effects of noise and of failures, for `penstock risk`. For noise, it runs a program many
// times with random durations, which gives a distribution of makespans. For failures, it computes the
// fraction of a cluster's time that becomes useful work.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"

namespace penstock {

/// The sources of noise. Each random number is a function of the seed, the trial, and the rank or action.
struct Noise {
  /// Half of the width of the noise, from 0 to 1. The duration of every compute action is multiplied by a
  /// random factor, uniform in [1 - jitter, 1 + jitter].
  double jitter = 0;
  /// The probability, from 0 to 1, that a rank is a straggler in a trial. All compute actions of a straggler
  /// take `slowdown` times as long.
  double straggler_chance = 0;
  double slowdown = 1.5;  ///< factor on the durations of a straggler, >= 1
  std::uint64_t seed = 1;
};

/// The makespans of all trials.
struct NoisyMakespans {
  Ns undisturbed_ns = 0;
  std::vector<Ns> sorted;  ///< makespans of the trials, ascending
  double mean_ns() const;
  /// Returns a percentile of the makespans by the nearest-rank method. It is the smallest makespan that at
  /// least this part of the trials does not exceed. Requires 0 < part <= 1.
  Ns percentile(double part) const;
};

/// The number of trials, and the engine that runs them.
struct Trials {
  std::int32_t count = 1000;  ///< number of trials, >= 1
  Engine engine = Engine::automatic;
  /// A function that is called to report progress, from any thread: `done` trials out of `total` are
  /// finished.
  std::function<void(std::size_t done, std::size_t total)> progress{};
};

/// Returns the durations of one trial. Noise changes only compute actions. Messages and collectives retain
/// their durations.
WalkDurations disturbed(WalkDurations durations, const FlatProgram& flat, const Noise& noise,
                        std::uint64_t trial);

/// Returns an error message if, with this noise, times in nanoseconds may exceed 64 bits. Otherwise returns
/// nothing.
std::optional<std::string> noise_fault(const Experiment& experiment, const Noise& noise);

/// Runs the trials on all cores and returns their makespans. Equal inputs give equal results on any number
/// of cores. Requires that noise_fault() returns nothing. Returns an error if the program hangs.
tl::expected<NoisyMakespans, std::string> monte_carlo(const Experiment& experiment, const Noise& noise,
                                                      const Trials& trials);

/// A job on devices that fail at random. Each device fails independently and at a constant rate. All times
/// are in seconds.
struct Failures {
  double device_mtbf = 0;  ///< mean time between two failures of one device; > 0
  double devices = 1;      ///< number of devices, >= 1; a failure of any one stops the job
  double save = 0;         ///< time to save one checkpoint, during which no work is done; >= 0
  double restart = 0;      ///< time from a failure until the job continues from the last checkpoint; >= 0
};

/// Returns the part of the time that becomes useful work, if a checkpoint is saved after every `interval`
/// seconds of work (>= 0). Let t = interval, M = the cluster's mean time between failures, C = save and R =
/// restart. Then the part is t / (M e^(R/M) (e^((t+C)/M) - 1)) (Daly, FGCS 22, 2006, section 3). The formula
/// includes failures during saves and restarts. If a save takes no time, an interval of 0 gives the limit of
/// the formula.
double goodput(const Failures& failures, double interval);

/// Returns the checkpoint interval with the highest goodput, in seconds, with a relative precision of 1e-6.
/// If C is much smaller than M, it is about sqrt(2 C M) (Young, CACM 17, 1974). It is 0 if a save takes no
/// time. C and M are those of goodput().
double best_interval(const Failures& failures);

// Distributes the microbatches of a failed rank to the other ranks that hold its stages, so that the step can
// continue. `penstock risk --reroute` prints the time of such a step.

/// Returns the program after a rank has failed. The rank has an empty list and holds no stage. Its
/// microbatches are distributed in turn to the other ranks that hold the same stage. These ranks run the
/// moved microbatches while they wait for their own work. Requires a program of compute actions and
/// reductions. Fails if the program does not have the rank, or if no other rank holds one of its stages. Also
/// fails if the program updates weights after each microbatch, or if stages are sharded.
tl::expected<Program, std::string> rerouted(const Experiment& experiment, std::int32_t failed);

/// Returns the experiment with all copies of its pipeline in one program. A model on named devices has its
/// copies outside of the program, and this function adds them. Other experiments do not change. Errors:
/// copies on unlike devices, or with microbatches that differ.
tl::expected<Experiment, std::string> with_all_copies(Experiment experiment);

/// The step of a program after one rank has failed.
struct ReroutedStep {
  std::int32_t rank = 0;   ///< the failed rank
  std::int32_t stage = 0;  ///< the first stage of the failed rank
  Ns step_ns = 0;          ///< makespan of one iteration without the failed rank
};

/// The steps before and after a failure.
struct RerouteReport {
  Ns before_ns = 0;
  /// One entry for each group of ranks that hold the same stages. The first rank of the group has failed.
  std::vector<ReroutedStep> after;

  /// Returns the longest step after a failure. If several are equally long, returns the one with the lowest
  /// rank.
  const ReroutedStep& longest() const;
  double mean_ns() const;
};

/// Predicts the step before a failure, and one step after a failure for each group of ranks that hold the
/// same stages. rerouted() describes such a step. Fails if rerouted() or with_all_copies() fails, if the
/// input is wrong, or if a program hangs.
tl::expected<RerouteReport, UserError> reroute_report(const Scenario& scenario);

}  // namespace penstock
