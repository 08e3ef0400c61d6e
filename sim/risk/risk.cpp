// Predicts a program many times with random durations. In each trial, the duration of every compute action
// is multiplied by 1 + jitter * u, with u uniform in [-1, 1]. On slow ranks (stragglers), actions take
// `slowdown` times as long. If no link is shared, the program's tape runs eight trials at once. Otherwise
// the event engine runs each trial. The result is the sorted list of makespans. A random number depends
// only on the seed, the trial, and the position or rank. So the result does not depend on the number of
// threads. Tests: tests/sim/risk_test.cpp.

#include "sim/risk/risk.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <boost/math/tools/minima.hpp>
#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/sweep/parallel_loop.hpp"

namespace penstock {

namespace {

/// The random numbers of one trial. They depend only on the seed, the number of the trial, and the rank or
/// action.
class TrialDraws {
 public:
  TrialDraws(const Noise& noise, std::uint64_t trial)
      : noise_(noise), key_(mixed(noise.seed ^ mixed(trial))) {}

  /// Returns the factor on the durations of the rank in this trial, apart from jitter. It is `slowdown` for a
  /// slow rank (straggler), and 1 for others.
  double slowness(std::int32_t rank) const {
    // Ranks and positions need different keys. With the same key, rank r would get the same random number as
    // the action at position r.
    return even_draw(mixed(key_), static_cast<std::uint64_t>(rank)) < noise_.straggler_chance
               ? noise_.slowdown
               : 1;
  }
  Ns disturbed(Ns duration, double slowness, std::size_t position) const {
    const double factor = slowness * (1 + noise_.jitter * (2 * even_draw(key_, position) - 1));
    return std::llround(static_cast<double>(duration) * factor);
  }

 private:
  const Noise& noise_;
  std::uint64_t key_;
};

/// A runner of trials on a tape. It runs kLanes of them at once.
class TapeTrials {
 public:
  /// Keeps references to all arguments, which must outlive this object. `tape` must be compiled from `flat`
  /// for the experiment's costs.
  TapeTrials(const Experiment& experiment, const FlatProgram& flat, const Tape& tape, const Noise& noise)
      : tape_(tape), noise_(noise), ranks_(flat.rank_count), costs_(tape_costs(tape, experiment)) {
    std::visit(
        [this](const auto& code) {
          for (const auto& step : code) undisturbed_.push_back(costs_.durations[step.duration]);
        },
        tape.code);
    // The jitter depends on the position of an action, and the slowness on its rank. The tape stores only the
    // position of each instruction's action, so a table gives the rank of each position.
    std::vector<std::int32_t> rank_of_position(index(flat.position_count()));
    for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
      std::fill(rank_of_position.begin() + flat.rank_begin[index(rank)],
                rank_of_position.begin() + flat.rank_begin[index(rank) + 1], rank);
    }
    for (const Origin& origin : tape.origins)
      rank_of_.push_back(origin.position == kNone ? kNone : rank_of_position[index(origin.position)]);
  }

  Ns undisturbed_ns() const { return makespan_ns(tape_, costs_); }

  /// Returns the makespans of kLanes trials, beginning with trial `first`.
  LaneTimes makespans_from(std::size_t first) const {
    // The slowness is a property of a rank in one trial, so it is computed once for all actions of the rank.
    std::vector<TrialDraws> lanes;
    std::vector<std::array<double, kLanes>> slowness(index(ranks_));
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes.emplace_back(noise_, first + lane);
      for (std::int32_t rank = 0; rank < ranks_; ++rank)
        slowness[index(rank)][lane] = lanes[lane].slowness(rank);
    }
    return makespans_ns(tape_, costs_, [&](std::size_t begin, std::span<LaneLine> lines) {
      for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::size_t at = begin + i;
        // A duration of 0 stays 0 and needs no random number.
        const bool computes = rank_of_[at] != kNone && undisturbed_[at] != 0;
        if (!computes) {
          lines[i].of.fill(undisturbed_[at]);
          continue;
        }
        const auto position = index(tape_.origins[at].position);
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          lines[i].of[lane] =
              lanes[lane].disturbed(undisturbed_[at], slowness[index(rank_of_[at])][lane], position);
        }
      }
    });
  }

 private:
  const Tape& tape_;
  const Noise& noise_;
  std::int32_t ranks_;
  TapeCosts costs_;
  std::vector<Ns> undisturbed_;  // duration of each instruction without noise
  // For each instruction, the rank of its compute action, or kNone.
  std::vector<std::int32_t> rank_of_;
};

/// A counter of finished trials that all threads share. It reports each change.
class FinishedTrials {
 public:
  explicit FinishedTrials(const Trials& trials)
      : report_(trials.progress), total_(static_cast<std::size_t>(trials.count)) {}
  void add(std::size_t count) {
    const std::size_t done = done_.fetch_add(count) + count;
    if (report_) report_(done, total_);
  }

 private:
  const std::function<void(std::size_t, std::size_t)>& report_;
  std::size_t total_;
  std::atomic<std::size_t> done_ = 0;
};

NoisyMakespans trials_on_tape(const TapeTrials& trials, std::size_t count, FinishedTrials& finished) {
  NoisyMakespans makespans{.undisturbed_ns = trials.undisturbed_ns(), .sorted = std::vector<Ns>(count)};
  parallel_loop((count + kLanes - 1) / kLanes, [&](std::size_t batch) {
    const LaneTimes times = trials.makespans_from(batch * kLanes);
    // The last batch may have fewer trials than lanes.
    const std::size_t used = std::min(kLanes, count - batch * kLanes);
    std::copy_n(times.begin(), used, makespans.sorted.begin() + static_cast<std::ptrdiff_t>(batch * kLanes));
    finished.add(used);
  });
  return makespans;
}

NoisyMakespans trials_by_events(const Experiment& experiment, const FlatProgram& flat, const Noise& noise,
                                std::size_t count, FinishedTrials& finished) {
  const WalkDurations durations = walk_durations(experiment, flat);
  NoisyMakespans makespans{.undisturbed_ns = last_end(event_walk(experiment, flat, durations)),
                           .sorted = std::vector<Ns>(count)};
  parallel_loop(count, [&](std::size_t trial) {
    makespans.sorted[trial] =
        last_end(event_walk(experiment, flat, disturbed(durations, flat, noise, trial)));
    finished.add(1);
  });
  return makespans;
}

}  // namespace

double NoisyMakespans::mean_ns() const {
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0,
                                     [](double s, Ns ns) { return s + static_cast<double>(ns); });
  return sum / static_cast<double>(sorted.size());
}

Ns NoisyMakespans::percentile(double part) const {
  const double rank = std::ceil(part * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

WalkDurations disturbed(WalkDurations durations, const FlatProgram& flat, const Noise& noise,
                        std::uint64_t trial) {
  const TrialDraws draws(noise, trial);
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    const double slowness = draws.slowness(rank);
    const std::size_t end = index(flat.rank_begin[index(rank) + 1]);
    for (std::size_t position = index(flat.rank_begin[index(rank)]); position < end; ++position)
      durations.compute[position] = draws.disturbed(durations.compute[position], slowness, position);
  }
  return durations;
}

// prepare() has checked that the sum of all durations is below 2^62 ns. Noise changes only compute actions.
// If their sum with noise is also below 2^62 ns, the sum of all durations stays below 2^63 ns.
std::optional<std::string> noise_fault(const Experiment& experiment, const Noise& noise) {
  constexpr double kMostNanoseconds = 4.6e18;
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  const WalkDurations durations = walk_durations(experiment, flat);
  const double undisturbed_ns =
      std::accumulate(durations.compute.begin(), durations.compute.end(), 0.0,
                      [](double sum, Ns ns) { return sum + static_cast<double>(ns); });
  const double times = (1 + noise.jitter) * (noise.straggler_chance > 0 ? noise.slowdown : 1);
  if (undisturbed_ns * times < kMostNanoseconds) return std::nullopt;
  const auto longest = std::ranges::max_element(durations.compute);
  const auto position = static_cast<std::size_t>(longest - durations.compute.begin());
  return fmt::format(
      "with this noise the compute actions may take {:.4g} times their {:.3g} s, one after the other, and 64 "
      "bits of nanoseconds end at 146 years: {} may take {:.4g} s; take a smaller --slowdown or --jitter, or "
      "shorter times",
      times, undisturbed_ns / 1e9, to_text(flat.actions[position]),
      static_cast<double>(*longest) * times / 1e9);
}

tl::expected<NoisyMakespans, std::string> monte_carlo(const Experiment& experiment, const Noise& noise,
                                                      const Trials& trials) {
  // All trials hang or none does, because durations do not matter. So one check is enough.
  if (const auto hang = find_hang(experiment.program, experiment.channels, experiment.costs))
    return tl::unexpected(hang->message);
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  const auto count = static_cast<std::size_t>(trials.count);
  FinishedTrials finished(trials);
  NoisyMakespans makespans;
  if (resolve(experiment, trials.engine) == Engine::event) {
    makespans = trials_by_events(experiment, flat, noise, count, finished);
  } else {
    const Tape tape = compile(flat, experiment.channels, microbatch_groups(experiment.costs)).value();
    makespans = trials_on_tape(TapeTrials(experiment, flat, tape, noise), count, finished);
  }
  std::ranges::sort(makespans.sorted);
  return makespans;
}

// Computes the goodput: the part of the time that becomes useful work, if a job saves a checkpoint after
// every `interval` seconds of work, and devices fail at random. M is the job's mean time between failures, C
// the time of a save, and R the time of a restart. The times between failures are exponentially distributed.
// The expected time for one interval of work is then (Daly, FGCS 22, 2006, section 3)
//
//     M e^(R / M) (e^((interval + C) / M) - 1)        and goodput = interval / that
//
// There is no formula for the best interval. Brent's method finds it on a logarithmic scale between almost 0
// and 2 M. In this range, the lost time first decreases and then increases.

namespace {

double mean_time_between_failures(const Failures& failures) {
  return failures.device_mtbf / failures.devices;
}

}  // namespace

double goodput(const Failures& failures, double interval) {
  const double mean = mean_time_between_failures(failures);
  if (interval == 0) return failures.save == 0 ? std::exp(-failures.restart / mean) : 0;
  return interval /
         (mean * std::exp(failures.restart / mean) * std::expm1((interval + failures.save) / mean));
}

double best_interval(const Failures& failures) {
  if (failures.save == 0) return 0;
  const double mean = mean_time_between_failures(failures);
  // The search uses the logarithm, because the best interval may be many orders of magnitude below the mean.
  // The restart only multiplies the loss by a constant, so it is omitted.
  const auto loss = [&](double logarithm) {
    const double interval = std::exp(logarithm);
    return std::log(std::expm1((interval + failures.save) / mean)) - logarithm;
  };
  // The search begins at 1e-12 M, or below Young's first-order estimate if this is smaller. It is smaller
  // only if a save takes less than 1e-24 M.
  const double young = std::log(std::sqrt(2 * failures.save * mean));
  const double least = std::log(mean * 1e-12);
  constexpr int kBits = 40;
  return std::exp(boost::math::tools::brent_find_minima(loss, least < young ? least : young - 1,
                                                        std::log(2 * mean), kBits)
                      .first);
}

}  // namespace penstock
