// Computes the times and peaks of configurations by running their programs. configuration_prices.cpp
// computes bounds of the same figures without a program.
//
// Tens of thousands of configurations have only hundreds of different programs. Lower bounds exclude most
// configurations, so many programs are never needed, and each is generated when it is first used. All
// programs together might not fit into memory, so the number of stored instructions is limited. Tests:
// tests/sim/tuning_test.cpp.

#include "sim/choose/configuration_figures.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/configuration_prices.hpp"
#include "sim/choose/tune.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/sweep/parallel_loop.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// The limit of tape instructions that are stored for all programs. A tape is the list of instructions that a
/// program is compiled to. An instruction needs about 60 bytes, including its share of the program.
constexpr std::size_t kMostInstructions = 16'000'000;

/// Generates the program for one copy of the pipeline with stages of equal cost. It has no sharding, because
/// the costs include the exchange between copies.
Generated constructed(const Scenario& scenario, std::int32_t microbatches) {
  Shape shape = scenario.shape;
  shape.sharding.reset();
  shape.gather = Gather::microbatch;
  shape.microbatches = microbatches;
  // A barrier before STEP has no effect if STEP takes equally long on all ranks. If the output layer is
  // divided, ranks have different numbers of stages, so the rounded times of their STEPs may differ.
  shape.barrier |= divides_output(extra_stages_of(scenario.schedule));
  return generate(scenario.schedule, shape);
}

/// Lowers the program and compiles it to a tape, which is a list of instructions. Such a lowered program is
/// needed if channels block or have a capacity, or if the host launches actions. Returns an error if the
/// program hangs.
tl::expected<TunedProgram, std::string> walked(const Scenario& scenario, const Program& program) {
  auto lowered = lower(program, scenario.channels);
  if (!lowered) return tl::unexpected(lowered.error());
  const CostTable costs{.stages = std::vector<StageCost>(index(program.stage_count())),
                        .edges = std::vector<EdgeCost>(stage_edges(program).size()),
                        .launch = scenario.launch};
  const FlatProgram flat =
      flatten(*lowered, costs, {.channels = scenario.channels, .iterations = lowered->iterations});
  auto tape = compile(flat, scenario.channels);
  if (!tape) {
    return tl::unexpected(fmt::format("{} with {} stages and {} microbatches hangs under these channels",
                                      scenario.schedule, scenario.shape.stages, program.microbatches));
  }
  // The tape is stored in the same field as a tape from placement rounds, so that the same code runs both.
  TurnTape turns;
  turns.tape = *std::move(tape);
  return TunedProgram{.program = *std::move(lowered),
                      .is_lowered = true,
                      .channels = scenario.channels,
                      .turns = std::move(turns)};
}

/// Compiles the program to a tape, which is a list of instructions. First tries compile_turns(), which reads
/// the compute actions directly and stores no lists of messages. Such lists would need most of the program's
/// memory. Returns an error if the program hangs under the scenario's channels.
tl::expected<TunedProgram, std::string> compiled(const Scenario& scenario, Program program) {
  auto turns =
      scenario.launch.is_free() ? compile_turns(program, scenario.channels) : std::optional<TurnTape>();
  if (!turns || turns->has_collectives) return walked(scenario, program);
  return TunedProgram{
      .program = std::move(program), .channels = scenario.channels, .turns = *std::move(turns)};
}

/// Generates the program of a configuration and compiles it to a tape (compiled()).
tl::expected<TunedProgram, std::string> made(const TuneRequest& request, const Configuration& configuration) {
  const Scenario scenario = scenario_of(request, configuration);
  auto program = constructed(scenario, configuration.microbatches);
  if (!program) return tl::unexpected(program.error());
  return compiled(scenario, *std::move(program));
}

}  // namespace

tl::expected<const ScheduleOutline*, std::string> ProgramLibrary::outline(
    const Configuration& configuration) {
  // For M >= 2 K, most programs that differ only in M have the same outline.
  // If the output layer is divided, the first stage stores up to two microbatches more than K.
  const std::int32_t further = divides_output(extra_stages_of(configuration.schedule)) ? 2 : 0;
  // Offloaded activations are spread over all microbatches, so a shorter program offloads other activations.
  const std::int32_t microbatches =
      configuration.offload > 0
          ? configuration.microbatches
          : outlined_microbatches(configuration.stages, configuration.microbatches, further);
  Key key(configuration.schedule, configuration.stages, configuration.virtual_stages, microbatches,
          configuration.offload);
  if (const auto known = outlines_.find(key); known != outlines_.end()) return &known->second;
  const Scenario scenario = scenario_of(request_, configuration);
  auto program = constructed(scenario, microbatches);
  if (!program && microbatches < configuration.microbatches) {
    // Some schedules accept M but refuse the smaller number. For example, with groups of 6 on 4 ranks, M = 24
    // is valid but M = 8 is not.
    key = key_of(configuration);
    if (const auto known = outlines_.find(key); known != outlines_.end()) return &known->second;
    program = constructed(scenario, configuration.microbatches);
  }
  if (!program) return tl::unexpected(program.error());
  return &outlines_.emplace(key, outline_of(*program)).first->second;
}

std::shared_ptr<const TunedProgram> ProgramLibrary::found(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(cached_, key, &Cached::key);
  if (known == cached_.end()) return nullptr;
  cached_.splice(cached_.begin(), cached_, known);
  return cached_.front().program;
}

void ProgramLibrary::store(const Key& key, const std::shared_ptr<const TunedProgram>& program) {
  const std::scoped_lock lock(mutex_);
  cached_.push_front({.key = key, .program = program});
  instructions_ += program->turns.tape.size();
  // The newest program always remains, even if it is larger than the limit. A removed program exists until
  // its last user has released it.
  while (instructions_ > kMostInstructions && cached_.size() > 1) {
    instructions_ -= cached_.back().program->turns.tape.size();
    cached_.pop_back();
  }
}

tl::expected<std::shared_ptr<const TunedProgram>, std::string> ProgramLibrary::program(
    const Configuration& configuration) {
  // The mutex is not locked while a program is made. In rare cases, two threads make the same program, which
  // only costs time.
  const Key key = key_of(configuration);
  if (auto known = found(key)) return known;
  auto program = made(request_, configuration);
  if (!program) return tl::unexpected(program.error());
  auto shared = std::make_shared<const TunedProgram>(*std::move(program));
  store(key, shared);
  return shared;
}

// Computes times and peaks of configurations with the same program. They differ only in costs and links, so
// the tape runs up to eight of them at once. A peak depends on the times of all actions, because messages
// occupy buffers while they wait. Configurations with equal costs are computed once. For example, selective
// recomputation may recompute nothing.

namespace {

/// Returns an experiment that contains the program without its lists of actions. The lists need nearly all
/// of the program's memory, and the costs do not depend on them.
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
  experiment.cluster = priced.unlike_links ? *priced.unlike_links : uniform_cluster(priced.links).value();
}

/// Returns for each configuration the index of the first configuration with the same costs, which may be its
/// own index.
std::vector<std::size_t> first_alike(std::span<const PricedConfiguration> priced) {
  std::vector<std::size_t> firsts;
  for (const PricedConfiguration& one : priced)
    firsts.push_back(static_cast<std::size_t>(std::ranges::find(priced, one) - priced.begin()));
  return firsts;
}

/// Returns a value for each configuration. `of` computes it only for the first of several configurations with
/// equal costs.
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

/// The rank with the least free memory, and its levelled peak.
struct FullestRank {
  std::int64_t rank = 0;
  Bytes levelled_peak = 0;
};

/// Returns the fullest rank. `peaks` has the peak of each rank.
FullestRank fullest_of(const std::vector<Bytes>& peaks, const PricedConfiguration& priced) {
  FullestRank fullest{.levelled_peak = std::numeric_limits<Bytes>::min()};
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    const Bytes levelled = peaks[rank] + (priced.smaller_by.empty() ? 0 : priced.smaller_by[rank]);
    if (levelled > fullest.levelled_peak)
      fullest = {.rank = static_cast<std::int64_t>(rank), .levelled_peak = levelled};
  }
  return fullest;
}

std::vector<Bytes> peaks_of_ranks(const Result& result) {
  std::vector<Bytes> peaks;
  peaks.reserve(result.ranks.size());
  for (const RankReport& rank : result.ranks) peaks.push_back(rank.memory.peak_bytes);
  return peaks;
}

/// Returns the peaks of all ranks by simulate(). It is needed if actions of the program overlap, or if the
/// program is lowered.
std::vector<Bytes> simulated_peaks(const TunedProgram& tuned, const PricedConfiguration& priced) {
  Experiment experiment = without_lists(tuned);
  experiment.program = tuned.is_lowered ? tuned.program : lower(tuned.program).value();
  set(experiment, priced);
  const SimulateOptions options{.memory = {.samples = false},
                                .steady = SteadyState::skip,
                                .timeline = TimelineKept::none,
                                .figures = WantedFigures::of_rows};
  return peaks_of_ranks(simulate(experiment, options).value());
}

/// Returns the fullest rank of each configuration, and its levelled peak.
std::vector<FullestRank> fullest(const TunedProgram& tuned, std::span<const PricedConfiguration> priced) {
  Experiment experiment = without_lists(tuned);
  return for_all<FullestRank>(priced, [&](const std::vector<std::size_t>& different,
                                          std::vector<FullestRank>& found) {
    for (const std::size_t one : different) {
      set(experiment, priced[one]);
      const TapeCosts costs = tape_costs(tuned.turns.tape, experiment);
      const auto of_ranks =
          tuned.is_lowered ? std::nullopt : tape_peaks(tuned.program, priced[one].costs, tuned.turns, costs);
      found[one] = fullest_of(of_ranks ? *of_ranks : simulated_peaks(tuned, priced[one]), priced[one]);
    }
  });
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
      // One pass over the tape runs up to eight tables. The results of lanes without a table are ignored.
      const LaneTimes times = makespans_ns(tape, tables);
      for (std::size_t lane = 0; lane < lanes; ++lane) steps[different[first + lane]] = times[lane];
    }
  });
}

std::vector<Bytes> peak_bytes(const TunedProgram& tuned, std::span<const PricedConfiguration> priced) {
  std::vector<Bytes> peaks;
  for (const FullestRank& rank : fullest(tuned, priced)) peaks.push_back(rank.levelled_peak);
  return peaks;
}

std::vector<std::int64_t> fullest_ranks(const TunedProgram& tuned,
                                        std::span<const PricedConfiguration> priced) {
  std::vector<std::int64_t> ranks;
  for (const FullestRank& rank : fullest(tuned, priced)) ranks.push_back(rank.rank);
  return ranks;
}

// If the user stops the search, threads of this work may still run. Therefore the work owns all its data: the
// configurations with their costs, and a shared pointer to the program library.

namespace {

/// Groups the indices of configurations by program, in the order in which the programs first appear.
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

/// The figures of several configurations, or an error message.
struct FoundFigures {
  std::vector<std::int64_t> figures{};  // figures of the configurations; empty if the work was stopped
  std::string error{};
};

/// Computes the figures of configurations with the same program. Generates the program if it is not cached.
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
  parallel_loop(groups.size(), [&](std::size_t g) {
    if (!stopped || !stopped()) of_groups[g] = figures_of_group(asked, groups[g], programs, figures_of);
  });
  FoundFigures all{.figures = std::vector<std::int64_t>(asked.size())};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    // If the work was stopped or a program hangs, there are no figures at all.
    if (of_groups[g].figures.empty()) return std::move(of_groups[g]);
    for (std::size_t i = 0; i < groups[g].size(); ++i) all.figures[groups[g][i]] = of_groups[g].figures[i];
  }
  return all;
}

}  // namespace

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

// Finds the figures of configurations with a schedule that searches its order. The order depends only on the
// schedule, the numbers of stages, chunks and microbatches, and the costs of stages and links. Configurations
// that agree in these are searched once. Tests: tests/sim/tuning_space_test.cpp.

namespace {

/// Searches the order of a scenario's schedule, and computes the figures with the tape of the resulting
/// program. `priced` are the scenario's costs. Returns the errors of simulate_scenario().
tl::expected<SearchedFigures, UserError> searched_figures(const Scenario& scenario,
                                                          const PricedConfiguration& priced) {
  auto experiment = prepare(scenario, ProgramForm::lists);
  if (!experiment) return tl::unexpected(experiment.error());
  const auto program = compiled(scenario, std::move(experiment->program));
  if (!program) {
    // A program that hangs cannot be compiled to a tape. The simulation then returns an error, which shows
    // the cycle of waits.
    return simulate_scenario(scenario, SimulateOptions{}).map([&](const Result& result) {
      const FullestRank rank = fullest_of(peaks_of_ranks(result), priced);
      return SearchedFigures{.step_ns = result.makespan_ns,
                             .peak_bytes = rank.levelled_peak,
                             .fullest_rank = rank.rank,
                             .notes = result.notes};
    });
  }
  const std::span<const PricedConfiguration> one(&priced, 1);
  const FullestRank rank = fullest(*program, one).front();
  return SearchedFigures{.step_ns = step_times(*program, one).front(),
                         .peak_bytes = rank.levelled_peak,
                         .fullest_rank = rank.rank,
                         .notes = std::move(experiment->notes)};
}

}  // namespace

tl::expected<std::optional<SearchedFigures>, UserError> SearchedOrders::of(
    const Configuration& configuration, const PricedConfiguration& priced) {
  // Orders are searched for few configurations (TuneOptions::refined), so a linear search in their list is
  // enough.
  const ProgramLibrary::Key key = ProgramLibrary::key_of(configuration);
  const auto known = std::ranges::find_if(
      searched_, [&](const Searched& one) { return one.key == key && one.priced == priced; });
  if (known != searched_.end()) return known->figures;
  const TuneRequest request = with_layers(request_, configuration, priced.layers);
  auto searched = done_unless(stopped_, [scenario = scenario_of(request, configuration), priced] {
    return searched_figures(scenario, priced);
  });
  if (!searched) return std::nullopt;
  if (!*searched) return tl::unexpected(searched->error());
  searched_.push_back({.key = key, .priced = priced, .figures = **std::move(searched)});
  return searched_.back().figures;
}

}  // namespace penstock
