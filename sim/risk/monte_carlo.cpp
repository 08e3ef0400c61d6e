// In each trial every compute action takes its time times 1 + jitter * u, u even in [-1, 1], some ranks are
// slower altogether, and the program is walked again; the sorted makespans are the answer. A draw depends on
// the seed, the trial and the place alone, so that it is the same on any number of threads.

#include "sim/risk/monte_carlo.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <tbb/parallel_for.h>
#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/mixed_bits.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/event_walk.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {
namespace {

/// The durations of one trial.
WalkDurations disturbed(const WalkDurations& undisturbed, const FlatProgram& flat, const Noise& noise,
                        std::uint64_t trial) {
  const std::uint64_t key = mixed(noise.seed ^ mixed(trial));
  WalkDurations durations = undisturbed;
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    const auto number = static_cast<std::uint64_t>(rank);
    const bool slow = even_draw(mixed(key), number) < noise.straggler_chance;
    const auto begin = static_cast<std::size_t>(flat.rank_begin[number]);
    const auto end = static_cast<std::size_t>(flat.rank_begin[number + 1]);
    for (std::size_t position = begin; position < end; ++position) {
      const double factor =
          (slow ? noise.slowdown : 1) * (1 + noise.jitter * (2 * even_draw(key, position) - 1));
      durations.compute[position] = std::llround(static_cast<double>(durations.compute[position]) * factor);
    }
  }
  return durations;
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

tl::expected<NoisyMakespans, std::string> monte_carlo(const Experiment& experiment, const Noise& noise,
                                                      const Trials& trials) {
  if (const auto hang = find_hang(experiment.program, experiment.channels, experiment.costs))
    return tl::unexpected(hang->message);
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  const WalkDurations durations = walk_durations(experiment, flat);
  const bool shares_links = resolve(experiment, trials.engine) == Engine::event;
  const auto makespan = [&](const WalkDurations& of_trial) {
    return last_end(shares_links ? event_walk(experiment, flat, of_trial)
                                 : walk(flat, of_trial, experiment.channels).value());
  };
  NoisyMakespans makespans{.undisturbed_ns = makespan(durations),
                           .sorted = std::vector<Ns>(static_cast<std::size_t>(trials.count))};
  tbb::parallel_for(std::size_t{0}, makespans.sorted.size(), [&](std::size_t trial) {
    makespans.sorted[trial] = makespan(disturbed(durations, flat, noise, trial));
  });
  std::ranges::sort(makespans.sorted);
  return makespans;
}

}  // namespace penstock
