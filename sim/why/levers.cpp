// Predicts how much a run gains from changes (levers). A change of costs needs one more pass over the
// graph of causes, or one more run of the event engine if links are shared. A change of the shape or the
// schedule needs one more prediction.
//
// A large program has hundreds of stages and links, and most of their levers gain nothing. The makespan is a
// convex function of the costs, so the derivative at the real costs gives an upper bound of the gain:
//
//   gain <= sum over nodes of (weight of the node on the critical path) * (what the lever takes off its cost)
//
// If the bound of a lever is below kLeastGain, the lever is counted but its run is not computed. With shared
// links, the bound is only an estimate. Tests: tests/sim/why_test.cpp.

#include "sim/why/explain.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/why/account.hpp"

namespace penstock {
namespace {

double gain_of(Ns before, Ns after) {
  return before == 0 ? 0 : static_cast<double>(before - after) / static_cast<double>(before);
}

/// The times by which a lever shortens one node: its compute time, the time that it holds its channel, and
/// its latency.
struct Saving {
  Ns compute = 0;
  Ns hold = 0;
  Ns latency = 0;
};
using SavingOf = std::function<Saving(CauseNode)>;

/// A run that can be timed again with lower costs.
class ChangedCosts {
 public:
  ChangedCosts(const CausedRun& run, const Experiment* experiment) : run_(run), experiment_(experiment) {
    GraphTimes times(run.graph, run.costs);
    makespan_ = times.compute(RealParts::all(1, 1));
    weights_ = makespan_weights(run.graph, times);
    shares_links_ = experiment != nullptr && run.durations.hold != run.durations.hold_alone;
  }

  Ns makespan() const { return makespan_; }
  bool shares_links() const { return shares_links_; }

  /// Returns the lever with its predicted gain. Returns nothing if the upper bound of the gain is below
  /// kLeastGain. `nodes` are the nodes that the lever shortens.
  std::optional<Lever> lever(std::string name, const std::vector<CauseNode>& nodes,
                             const SavingOf& saving) const {
    double most = 0;
    for (const CauseNode node : nodes) {
      const Saving saved = saving(node);
      const double to_end = weights_[end_of(node)];
      most += to_end * static_cast<double>(saved.compute + saved.hold + saved.latency) +
              weights_[release_of(node)] * static_cast<double>(saved.hold);
    }
    if (most < kLeastGain * static_cast<double>(makespan_)) return std::nullopt;
    const Ns changed = shares_links_ ? event_makespan(nodes, saving) : graph_makespan(nodes, saving);
    return Lever{.lever = std::move(name), .makespan_ns = changed, .gain = gain_of(makespan_, changed)};
  }

  Ns makespan_without(IdleCause cause) const {
    GraphTimes times(run_.graph, run_.costs);
    RealParts parts = RealParts::all(1, 1);
    parts.of[static_cast<std::size_t>(cause)] = 0;
    return times.compute(parts);
  }

 private:
  Ns graph_makespan(const std::vector<CauseNode>& nodes, const SavingOf& saving) const {
    GraphCosts costs = run_.costs;
    for (const CauseNode node : nodes) {
      const Saving saved = saving(node);
      auto& added = costs.nodes[node].added_ns;
      // Only the sum of a node's costs matters here, so the whole saving is subtracted from one of them.
      added[0] -= saved.compute + saved.hold;
      added[2] -= saved.latency;
    }
    return GraphTimes(run_.graph, costs).compute(RealParts::all(1, 1));
  }

  Ns event_makespan(const std::vector<CauseNode>& nodes, const SavingOf& saving) const {
    FlatProgram flat = run_.flat;
    WalkDurations durations = walk_durations(*experiment_, flat);
    for (const CauseNode node : nodes) {
      const Saving saved = saving(node);
      const std::int32_t subject = run_.graph.subjects[node];
      if (saved.compute != 0) durations.compute[index(subject)] -= saved.compute;
      if (saved.latency != 0) durations.latency[index(subject)] -= saved.latency;
      // Half the bytes on a link take as long as all bytes on a link of twice the bandwidth.
      if (saved.hold != 0) flat.messages[index(subject)].bytes /= 2;
    }
    return last_end(event_walk(*experiment_, flat, durations));
  }

  const CausedRun& run_;
  const Experiment* experiment_;
  Ns makespan_ = 0;
  bool shares_links_ = false;
  std::vector<double> weights_;
};

/// A collector of the levers that change costs. A lever is a change that may shorten the run.
class CostLevers {
 public:
  CostLevers(const CausedRun& run, const Experiment* experiment)
      : run_(run), experiment_(experiment), changed_(run, experiment) {}

  LeverList list() && {
    add_stages();
    add_ranks();
    add_without(IdleCause::variation, "every microbatch of a stage as long as the others");
    add_links();
    add_halves();
    return std::move(found_);
  }

 private:
  void add(const std::string& name, const std::vector<CauseNode>& nodes, const SavingOf& saving) {
    if (nodes.empty()) return;
    auto lever = changed_.lever(name, nodes, saving);
    if (lever && lever->gain >= kLeastGain) {
      found_.levers.push_back(*std::move(lever));
    } else {
      ++found_.smaller;
    }
  }

  const NodeCost& cost(CauseNode node) const { return run_.costs.nodes[node]; }
  Ns real(CauseNode node) const {
    return cost(node).ideal_ns + cost(node).added_ns[0] + cost(node).added_ns[1] + cost(node).added_ns[2];
  }

  void add_without(IdleCause cause, const std::string& name) {
    std::vector<CauseNode> nodes;
    for (CauseNode node = 0; node < run_.graph.size(); ++node) {
      const auto causes = causes_of(run_.graph.kinds[node]);
      for (std::size_t i = 0; i < causes.size(); ++i) {
        if (causes[i] == cause && cost(node).added_ns[i] != 0) nodes.push_back(node);
      }
    }
    const auto saving = [&](CauseNode node) {
      const auto causes = causes_of(run_.graph.kinds[node]);
      Saving saved;
      for (std::size_t i = 0; i < causes.size(); ++i)
        saved.compute += causes[i] == cause ? cost(node).added_ns[i] : 0;
      return saved;
    };
    add(name, nodes, saving);
  }

  void add_stages() {
    std::map<std::int32_t, std::vector<CauseNode>> of_stage;
    for (CauseNode node = 0; node < run_.graph.size(); ++node) {
      if (run_.graph.kinds[node] != NodeKind::compute) continue;
      std::set<std::int32_t> stages;
      const std::int32_t begin = run_.graph.subjects[node];
      for (std::int32_t p = begin; p < run_.flat.group_end(begin); ++p)
        stages.insert(run_.flat.actions[index(p)].stage);
      for (const std::int32_t stage : stages) of_stage[stage].push_back(node);
    }
    add_without(IdleCause::imbalance, "stages as long as each other");
    if (of_stage.size() < 2) return;
    for (const auto& [stage, nodes] : of_stage) {
      add(fmt::format("stage {} 10 % faster", stage), nodes,
          [&, stage = stage](CauseNode node) { return Saving{.compute = time_of_stage(node, stage) / 10}; });
    }
  }

  /// Returns the part of the node's time that belongs to actions of the stage. The two actions of an
  /// overlapped pair may belong to two stages. Where the pair has a stated time, each action has a part that
  /// is proportional to its own time. A measured run does not know these times, so the parts are equal there.
  Ns time_of_stage(CauseNode node, std::int32_t stage) const {
    const std::int32_t begin = run_.graph.subjects[node];
    const std::int32_t end = run_.flat.group_end(begin);
    if (end - begin == 1) return real(node);
    double own = 0;
    double all = 0;
    bool is_stated = experiment_ == nullptr;
    for (std::int32_t p = begin; p < end; ++p) {
      const Action& action = run_.flat.actions[index(p)];
      double time = 1;
      if (experiment_ != nullptr) {
        const StageCost& cost = experiment_->costs.stage_of(action);
        time = static_cast<double>(duration_ns(cost, action.kind));
        is_stated |= cost.overlapped_pair_ns >= 0;
      }
      all += time;
      if (action.stage == stage) own += time;
    }
    if (all <= 0) return 0;
    return is_stated ? static_cast<Ns>(static_cast<double>(real(node)) * own / all) : static_cast<Ns>(own);
  }

  void add_ranks() {
    std::map<std::int32_t, std::vector<CauseNode>> slow;
    for (CauseNode node = 0; node < run_.graph.size(); ++node) {
      if (run_.graph.kinds[node] == NodeKind::compute && cost(node).added_ns[1] > 0)
        slow[run_.graph.ranks[node]].push_back(node);
    }
    for (const auto& [rank, nodes] : slow) {
      add(fmt::format("rank {} as fast as the other copies", rank), nodes,
          [&](CauseNode node) { return Saving{.compute = cost(node).added_ns[1]}; });
    }
  }

  void add_links() {
    const auto hold = [&](CauseNode node) {
      const Ns whole = cost(node).added_ns[0] + cost(node).added_ns[1];
      return Saving{.hold = whole - whole / 2};
    };
    const auto latency = [&](CauseNode node) {
      return Saving{.latency = cost(node).added_ns[2] - cost(node).added_ns[2] / 2};
    };
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<CauseNode>> links;
    std::vector<CauseNode> all;
    for (CauseNode node = 0; node < run_.graph.size(); ++node) {
      if (run_.graph.kinds[node] != NodeKind::transfer) continue;
      const FlatMessage& message = run_.flat.messages[index(run_.graph.subjects[node])];
      links[{message.from_rank, message.to_rank}].push_back(node);
      all.push_back(node);
    }
    const auto any = [&](const SavingOf& saving, auto part) {
      return std::ranges::any_of(all, [&](CauseNode node) { return saving(node).*part != 0; });
    };
    const bool has_hold = any(hold, &Saving::hold);
    const bool has_latency = any(latency, &Saving::latency);
    if (has_hold) add("twice the bandwidth for every message", all, hold);
    if (has_latency) add("half the latency of every message", all, latency);
    if (changed_.shares_links()) {
      const Ns alone = changed_.makespan_without(IdleCause::shared_link);
      found_.levers.push_back({.lever = "no message shares a link",
                               .makespan_ns = alone,
                               .gain = gain_of(changed_.makespan(), alone)});
    }
    if (links.size() < 2) return;
    for (const auto& [ends, nodes] : links) {
      if (has_hold) add(fmt::format("twice the bandwidth of {}>{}", ends.first, ends.second), nodes, hold);
      if (has_latency) add(fmt::format("half the latency of {}>{}", ends.first, ends.second), nodes, latency);
    }
  }

  void add_halves() {
    std::vector<CauseNode> launches;
    std::vector<CauseNode> collectives;
    std::vector<CauseNode> copies;
    for (CauseNode node = 0; node < run_.graph.size(); ++node) {
      if (cost(node).added_ns[0] == 0) continue;
      if (run_.graph.kinds[node] == NodeKind::launch) launches.push_back(node);
      if (run_.graph.kinds[node] == NodeKind::collective) collectives.push_back(node);
      if (run_.graph.kinds[node] == NodeKind::copy) copies.push_back(node);
    }
    const auto half = [&](CauseNode node) {
      return Saving{.compute = cost(node).added_ns[0] - cost(node).added_ns[0] / 2};
    };
    // The event engine computes the time of a collective from the links, so it cannot be halved there.
    if (changed_.shares_links()) return;
    add("launches in half the time", launches, half);
    add("collectives in half the time", collectives, half);
    add("copies to and from hosts in half the time", copies, half);
  }

  const CausedRun& run_;
  const Experiment* experiment_;
  ChangedCosts changed_;
  LeverList found_;
};

// --- other scenarios
// ------------------------------------------------------------------------------------------

/// Predicts the figures of a scenario, without its memory over time.
tl::expected<Result, UserError> figures_of_run(const Scenario& scenario,
                                               WantedFigures figures = WantedFigures::all) {
  SimulateOptions options;
  options.figures = figures;
  options.memory.samples = false;
  options.steady = SteadyState::skip;
  options.digest = ProgramDigest::skip;
  options.timeline = TimelineKept::none;
  auto prediction = predict(scenario, options);
  if (!prediction) return tl::unexpected(prediction.error());
  return std::move(prediction->result);
}

double time_a_sample(const Result& result) {
  return result.throughput.samples > 0 ? static_cast<double>(result.makespan_ns) / result.throughput.samples
                                       : 0;
}

/// A collector of the levers (changes that may shorten the run) that change the scenario, such as its shape
/// or its schedule.
class ScenarioLevers {
 public:
  ScenarioLevers(const Scenario& scenario, const Experiment& experiment, const Result& now)
      : scenario_(scenario), experiment_(experiment), now_(now) {}

  LeverList list() && {
    add_shapes();
    add_schedules();
    return std::move(found_);
  }

  tl::expected<Lever, UserError> lever(const std::string& name, const Scenario& changed) const {
    // A lever shows the time and the peak memory, which a row of a sweep has, too.
    const auto result = figures_of_run(changed, WantedFigures::of_rows);
    if (!result) return tl::unexpected(result.error());
    Lever lever{.lever = name, .makespan_ns = result->makespan_ns};
    lever.is_per_sample = result->throughput.samples != now_.throughput.samples;
    const double before = time_a_sample(now_);
    lever.gain = before > 0 ? 1 - time_a_sample(*result) / before : 0;
    lever.peak = highest_peak_bytes(*result);
    lever.fits = !any_out_of_memory(*result);
    return lever;
  }

 private:
  void add(const std::string& name, const Scenario& changed) {
    auto found = lever(name, changed);
    // The scenario may not allow the change. In this case there is no lever.
    if (!found) return;
    if (found->gain >= kLeastGain) {
      found_.levers.push_back(*std::move(found));
    } else {
      ++found_.smaller;
    }
  }

  void add_shapes() {
    const auto begun = begin_preparation(scenario_);
    if (!begun || scenario_.program) return;
    const ResolvedBatch& batch = begun->in_force.batch;
    const auto with_microbatches = [&](std::int64_t microbatches) {
      Scenario changed = scenario_;
      changed.batch.micro_batch_size = batch.micro_batch_size;
      changed.batch.global_batch_size.reset();
      changed.batch.microbatches = microbatches;
      add(fmt::format("{} microbatches, time a sample", microbatches), changed);
    };
    with_microbatches(2 * std::int64_t{batch.microbatches});
    if (batch.microbatches % 2 == 0) with_microbatches(batch.microbatches / 2);
    const ScheduleInfo* const schedule = find_schedule(scenario_.schedule);
    // A change of v must not change the work, or the lever would be to leave out a part of the model.
    if (schedule == nullptr || !takes_chunks(*schedule) || work_grows_with_chunks(scenario_)) return;
    for (const std::int32_t more : {1, -1}) {
      Scenario changed = scenario_;
      changed.shape.virtual_stages += more;
      changed.states_chunks = true;
      if (changed.shape.virtual_stages < 1) continue;
      add(fmt::format("v = {} in place of {}", changed.shape.virtual_stages, scenario_.shape.virtual_stages),
          changed);
    }
  }

  /// Adds a lever for each schedule that puts the same stages on the same ranks. Schedules that search for
  /// their order may take long and are left out.
  void add_schedules() {
    const ScheduleInfo* const now = find_schedule(scenario_.schedule);
    if (scenario_.program || now == nullptr) return;
    for (const ScheduleInfo& schedule : schedule_table()) {
      // Some schedules add stages of their own. The stages of two schedules can be compared only if both add
      // the same ones.
      if (extra_stages_of(schedule.name) != extra_stages_of(now->name)) continue;
      if (&schedule == now || schedule.asynchronous != now->asynchronous || takes_option(schedule, "effort"))
        continue;
      Scenario changed = scenario_;
      changed.schedule = schedule.name;
      // Without a model, the work of a stage depends on the number of chunks, so both scenarios must have the
      // same number of chunks.
      changed.states_chunks = changed.shape.virtual_stages > 1;
      const auto begun = begin_preparation(changed);
      if (!begun) continue;
      const auto prepared = prepare(*begun, ProgramForm::loops);
      if (!prepared || prepared->program.placement != experiment_.program.placement) continue;
      // A schedule that takes chunks would have its default number if the name alone were given.
      const std::int32_t chunks = changed.shape.virtual_stages;
      const bool names_chunks = takes_chunks(schedule) && chunks != schedule.default_chunks;
      add(fmt::format("{}{} in place of {}", schedule.name,
                      names_chunks ? fmt::format(" (v = {})", chunks) : "", now->name),
          changed);
    }
  }

  const Scenario& scenario_;
  const Experiment& experiment_;
  const Result& now_;
  LeverList found_;
};

// --- the memory limit ------------------------------------------------------------------------------------

/// The largest number of activations that each rank may hold. The unit is that of schedule.memory_limit:
/// bytes, or whole activations if the scenario has no model.
using RankLimits = std::vector<Bytes>;

/// Returns the limit as a scenario states it.
Bytes stated_limit(Bytes amount, MemoryUnit unit) {
  const double shown = shown_amount(amount, unit);
  return std::max<Bytes>(1, unit == MemoryUnit::bytes ? amount : static_cast<Bytes>(shown));
}

Bytes activations_of(const MemoryByCategory& memory) {
  return memory[static_cast<std::size_t>(MemoryCategory::activations)];
}

/// Returns the activations that each rank holds at its peak in the present order.
RankLimits present_limits(const Result& now) {
  RankLimits limits;
  for (const RankReport& rank : now.ranks)
    limits.push_back(stated_limit(activations_of(rank.memory.peaks), rank.memory.unit));
  return limits;
}

/// Returns the activations for which each rank's device has room in addition to everything else that it
/// stores. If the memory is unlimited, there is room for all activations at once.
RankLimits device_limits(const Result& now) {
  RankLimits limits;
  for (const RankReport& rank : now.ranks) {
    const RankMemory& memory = rank.memory;
    const Bytes all = activations_of(memory.peaks) * std::max(1, now.program.microbatches);
    const Bytes others = memory.peak_bytes - activations_of(memory.at_peak);
    const Bytes room = memory.usable() ? std::clamp<Bytes>(*memory.usable() - others, 0, all) : all;
    limits.push_back(stated_limit(room, memory.unit));
  }
  return limits;
}

/// Returns the scenario with the order of actions that a search finds within the limits. The search may
/// take `seconds`. Returns nothing if it cannot place the stages on the ranks that hold them now.
std::optional<Scenario> searched_scenario(const Scenario& scenario, const Placement& now, RankLimits limits,
                                          double seconds) {
  Scenario changed = scenario;
  changed.schedule = "synthesized";
  changed.states_chunks = changed.shape.virtual_stages > 1;
  changed.shape.objective = Objective::makespan;
  changed.shape.memory_limit = std::move(limits);
  for (const ChunkPlacement placement : {ChunkPlacement::interleaved, ChunkPlacement::v}) {
    changed.shape.placement = placement;
    changed.shape.effort = {.passes = 0};
    const auto begun = begin_preparation(changed);
    if (!begun) continue;
    const auto prepared = prepare(*begun, ProgramForm::loops);
    if (!prepared || prepared->program.placement != now) continue;
    changed.shape.effort = with_budget(scenario.shape.effort, seconds);
    return changed;
  }
  return std::nullopt;
}

}  // namespace

tl::expected<void, UserError> add_memory_limit_cost(Explanation& explanation, const Scenario& scenario,
                                                    const Experiment& experiment, double seconds) {
  const auto now = figures_of_run(scenario);
  if (!now) return tl::unexpected(now.error());
  const auto shortest = [&](RankLimits limits, Ns longest) -> tl::expected<Ns, UserError> {
    const auto changed =
        searched_scenario(scenario, experiment.program.placement, std::move(limits), seconds / 2);
    if (!changed) return bad_input("a search cannot place the stages as this schedule does");
    const auto found = figures_of_run(*changed);
    if (!found) return tl::unexpected(found.error());
    return std::min(longest, found->makespan_ns);
  };
  const bool has_sizes = std::ranges::any_of(
      now->ranks, [](const RankReport& rank) { return activations_of(rank.memory.peaks) > 0; });
  const auto both = [&]() -> tl::expected<MemoryLimitCost, UserError> {
    if (scenario.program) return bad_input("the order is that of a file");
    if (!has_sizes) return bad_input("the scenario states no sizes of activations");
    const auto within = shortest(present_limits(*now), now->makespan_ns);
    if (!within) return tl::unexpected(within.error());
    const auto with_all = shortest(device_limits(*now), *within);
    if (!with_all) return tl::unexpected(with_all.error());
    return MemoryLimitCost{.within_ns = *within, .with_all_ns = *with_all, .seconds = seconds};
  }();
  if (!both) {
    explanation.notes.push_back("the cost of the memory limit is not known: " + both.error().message);
    return {};
  }
  explanation.memory_limit = *both;
  return {};
}

LeverList cost_levers(const CausedRun& run, const Experiment* experiment) {
  return CostLevers(run, experiment).list();
}

void list_levers(Explanation& explanation, LeverList found, std::vector<Lever> own, std::size_t most) {
  const auto by_gain = [](const Lever& lever) { return lever.gain; };
  std::ranges::stable_sort(found.levers, std::ranges::greater{}, by_gain);
  explanation.smaller_levers = found.smaller;
  if (found.levers.size() > most) {
    explanation.smaller_levers += static_cast<std::int32_t>(found.levers.size() - most);
    found.levers.resize(most);
  }
  explanation.levers = std::move(own);
  explanation.levers.insert(explanation.levers.end(), found.levers.begin(), found.levers.end());
  std::ranges::stable_sort(explanation.levers, std::ranges::greater{}, by_gain);
}

tl::expected<void, UserError> add_levers(Explanation& explanation, const CausedRun& run,
                                         const Scenario& scenario, const Experiment& experiment,
                                         const std::vector<WhatIf>& own, std::size_t most) {
  const auto now = figures_of_run(scenario);
  if (!now) return tl::unexpected(now.error());
  explanation.peak = highest_peak_bytes(*now);
  explanation.memory_unit = now->ranks.front().memory.unit;
  ScenarioLevers scenarios(scenario, experiment, *now);
  std::vector<Lever> own_levers;
  for (const WhatIf& one : own) {
    auto lever = scenarios.lever(one.name, one.scenario);
    if (!lever) return tl::unexpected(lever.error());
    own_levers.push_back(*std::move(lever));
  }
  LeverList found;
  if (most > 0) {
    found = std::move(scenarios).list();
    LeverList costs = cost_levers(run, &experiment);
    found.levers.insert(found.levers.end(), costs.levers.begin(), costs.levers.end());
    found.smaller += costs.smaller;
  }
  list_levers(explanation, std::move(found), std::move(own_levers), most);
  return {};
}

}  // namespace penstock
