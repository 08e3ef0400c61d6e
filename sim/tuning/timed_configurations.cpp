// Configurations of one program differ in two small tables, of costs and of links, and go over its tape side
// by side. A peak needs the times of all actions, since messages are held as long as they wait.

#include "sim/tuning/timed_configurations.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tbb/parallel_for.h>
#include <tl/expected.hpp>

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
#include "sim/tuning/stoppable_work.hpp"
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

/// Places of those of one program, in the order in which programs first appear.
std::vector<std::vector<std::size_t>> by_program(const std::vector<AskedConfiguration>& asked) {
  std::map<ProgramLibrary::Key, std::size_t> place;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto [known, fresh] =
        place.try_emplace(ProgramLibrary::key_of(asked[i].configuration), groups.size());
    if (fresh) groups.emplace_back();
    groups[known->second].push_back(i);
  }
  return groups;
}

struct FoundFigures {
  std::vector<std::int64_t> figures{};  // none where the work was stopped before
  std::string error{};
};

FoundFigures figures_of_group(const std::vector<AskedConfiguration>& asked,
                              const std::vector<std::size_t>& group, ProgramLibrary& programs,
                              FiguresOfProgram figures_of) {
  const auto program = programs.program(asked[group.front()].configuration);
  if (!program) return {.error = program.error()};
  std::vector<PricedConfiguration> priced;
  priced.reserve(group.size());
  for (const std::size_t place : group) priced.push_back(asked[place].priced);
  return {.figures = figures_of(**program, priced)};
}

FoundFigures found_figures(const std::vector<AskedConfiguration>& asked, ProgramLibrary& programs,
                           FiguresOfProgram figures_of, const std::function<bool()>& stopped) {
  const auto groups = by_program(asked);
  std::vector<FoundFigures> of_groups(groups.size());
  tbb::parallel_for(std::size_t{0}, groups.size(), [&](std::size_t g) {
    if (!stopped || !stopped()) of_groups[g] = figures_of_group(asked, groups[g], programs, figures_of);
  });
  FoundFigures all{.figures = std::vector<std::int64_t>(asked.size())};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (of_groups[g].figures.empty()) return std::move(of_groups[g]);
    for (std::size_t i = 0; i < groups[g].size(); ++i) all.figures[groups[g][i]] = of_groups[g].figures[i];
  }
  return all;
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

std::vector<Bytes> peaks_of(const TunedProgram& program, std::span<const PricedConfiguration> priced) {
  std::vector<Bytes> peaks;
  for (const PricedConfiguration& one : priced) peaks.push_back(peak_bytes(program, one));
  return peaks;
}

tl::expected<std::vector<std::int64_t>, std::string> figures_of_all(std::vector<AskedConfiguration> asked,
                                                                    std::shared_ptr<ProgramLibrary> programs,
                                                                    FiguresOfProgram figures_of,
                                                                    const std::function<bool()>& stopped) {
  auto figures =
      done_unless(stopped, [asked = std::move(asked), programs = std::move(programs), figures_of, stopped] {
        return found_figures(asked, *programs, figures_of, stopped);
      });
  if (!figures) return std::vector<std::int64_t>();
  if (!figures->error.empty()) return tl::unexpected(std::move(figures->error));
  return std::move(figures->figures);
}

}  // namespace penstock
