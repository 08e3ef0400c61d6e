// Times configurations of one program. They differ only in two small tables, costs and links, so up to eight
// run over the tape at once. A peak needs the times of all actions, because messages are held while they
// wait. Configurations with equal costs are computed once, for example if selective recomputation recomputes
// nothing. Tests: tests/sim/tuning_test.cpp.

#include "sim/tuning/timed_configurations.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lower.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/lanes.hpp"
#include "sim/engines/tape.hpp"
#include "sim/memory/tape_peak.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// Returns the program's experiment without its lists. Prices do not use the lists, which take nearly all of
/// the program's memory.
Experiment without_lists(const TunedProgram& tuned) {
  const Program& whole = tuned.program;
  Experiment experiment;
  experiment.program.placement = whole.placement;
  experiment.program.edges = whole.edges;
  experiment.program.microbatches = whole.microbatches;
  experiment.program.update = whole.update;
  experiment.program.ranks.resize(whole.ranks.size());
  experiment.channels = tuned.channels;
  return experiment;
}

void set(Experiment& experiment, const PricedConfiguration& priced) {
  experiment.costs = priced.costs;
  experiment.cluster = uniform_cluster(priced.links).value();
}

/// Returns for each configuration the index of the first one with the same costs, which may be itself.
std::vector<std::size_t> first_alike(std::span<const PricedConfiguration> priced) {
  std::vector<std::size_t> firsts;
  for (const PricedConfiguration& one : priced)
    firsts.push_back(static_cast<std::size_t>(std::ranges::find(priced, one) - priced.begin()));
  return firsts;
}

/// Returns a value for each configuration. Calls `of` once for configurations with the same costs.
template <typename Value, typename Of>
std::vector<Value> for_all(std::span<const PricedConfiguration> priced, const Of& of) {
  const std::vector<std::size_t> firsts = first_alike(priced);
  std::vector<std::size_t> different;
  for (std::size_t i = 0; i < priced.size(); ++i) {
    if (firsts[i] == i) different.push_back(i);
  }
  std::vector<Value> values(priced.size());
  of(different, values);
  for (std::size_t i = 0; i < priced.size(); ++i) values[i] = values[firsts[i]];
  return values;
}

/// Returns the peak by simulate(). Used if actions of the program overlap, and under channels that placement
/// rounds do not model.
Bytes simulated_peak(const TunedProgram& tuned, const PricedConfiguration& priced) {
  Experiment experiment = without_lists(tuned);
  experiment.program = tuned.is_lowered ? tuned.program : lower(tuned.program).value();
  set(experiment, priced);
  const SimulateOptions options{.memory = {.samples = false},
                                .steady = SteadyState::skip,
                                .timeline = TimelineKept::none,
                                .figures = WantedFigures::of_rows};
  return highest_peak_bytes(simulate(experiment, options).value());
}

}  // namespace

std::vector<Ns> step_times(const TunedProgram& tuned, std::span<const PricedConfiguration> priced) {
  Experiment experiment = without_lists(tuned);
  const Tape& tape = tuned.turns.tape;
  return for_all<Ns>(priced, [&](const std::vector<std::size_t>& different, std::vector<Ns>& steps) {
    for (std::size_t first = 0; first < different.size(); first += kLanes) {
      const std::size_t lanes = std::min(kLanes, different.size() - first);
      std::vector<TapeCosts> tables;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        set(experiment, priced[different[first + lane]]);
        tables.push_back(tape_costs(tape, experiment));
      }
      // One pass over the tape computes up to eight tables. Lanes without a table are ignored.
      const LaneTimes times = makespans_ns(tape, tables);
      for (std::size_t lane = 0; lane < lanes; ++lane) steps[different[first + lane]] = times[lane];
    }
  });
}

std::vector<Bytes> peak_bytes(const TunedProgram& tuned, std::span<const PricedConfiguration> priced) {
  Experiment experiment = without_lists(tuned);
  return for_all<Bytes>(priced, [&](const std::vector<std::size_t>& different, std::vector<Bytes>& peaks) {
    for (const std::size_t one : different) {
      set(experiment, priced[one]);
      const TapeCosts costs = tape_costs(tuned.turns.tape, experiment);
      const auto peak = tuned.is_lowered
                            ? std::nullopt
                            : highest_tape_peak(tuned.program, priced[one].costs, tuned.turns, costs);
      peaks[one] = peak ? *peak : simulated_peak(tuned, priced[one]);
    }
  });
}

}  // namespace penstock
