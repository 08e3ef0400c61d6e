// Configurations of one program differ in two small tables, of costs and of links, and go over its tape side
// by side. A peak needs the times of all actions, since messages are held as long as they wait.

#include "sim/tuning/timed_configurations.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "report/result/result.hpp"
#include "report/timeline/walk_timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/lanes.hpp"
#include "sim/engines/tape.hpp"
#include "sim/memory/memory.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// The program's experiment without its lists, which neither prices nor memory look at.
Experiment without_lists(const TunedProgram& program) {
  const Experiment& whole = program.experiment;
  Experiment experiment;
  experiment.program.placement = whole.program.placement;
  experiment.program.edges = whole.program.edges;
  experiment.program.microbatches = whole.program.microbatches;
  experiment.program.update = whole.program.update;
  experiment.program.ranks.resize(whole.program.ranks.size());
  experiment.channels = whole.channels;
  return experiment;
}

void set(Experiment& experiment, const PricedConfiguration& priced) {
  experiment.costs = priced.costs;
  experiment.cluster = uniform_cluster(priced.links).value();
}

}  // namespace

std::vector<Ns> step_times(const TunedProgram& program, std::span<const PricedConfiguration> priced) {
  std::vector<Ns> steps;
  Experiment experiment = without_lists(program);
  for (std::size_t first = 0; first < priced.size(); first += kLanes) {
    std::vector<TapeCosts> tables;
    for (const PricedConfiguration& one : priced.subspan(first, std::min(kLanes, priced.size() - first))) {
      set(experiment, one);
      tables.push_back(tape_costs(program.tape, experiment));
    }
    const LaneTimes times = makespans_ns(program.tape, tables);
    steps.insert(steps.end(), times.begin(), times.begin() + static_cast<std::ptrdiff_t>(tables.size()));
  }
  return steps;
}

Bytes peak_bytes(const TunedProgram& program, const PricedConfiguration& priced) {
  Experiment experiment = without_lists(program);
  set(experiment, priced);
  const ProgramTimes times =
      times_of(program.tape, tape_costs(program.tape, experiment), program.flat, experiment.channels);
  const MemoryOfRanks memory(experiment, {.samples = false});
  RankSpans spans(program.flat, experiment.program.placement, times);
  Bytes most = 0;
  for (std::int32_t rank = 0; rank < program.flat.rank_count; ++rank)
    most = std::max(most, memory.of(rank, spans.of(rank)).peak_bytes);
  return most;
}

}  // namespace penstock
