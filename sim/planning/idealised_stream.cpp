// What is off is replaced in what the engines read: the warm-up in the schedule, the place of STEP in the
// program, the durations of messages on the way to the walk.
//
//   planned scenario --scenario_with()--> program --STEPs later--> walk with durations_with(), or an engine
//       --completions()--> ends of minibatches --period_of()--> period

#include "sim/planning/idealised_stream.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/check/stalled_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/memory_need.hpp"
#include "topology/cluster.hpp"
#include "topology/collective.hpp"

namespace penstock {
namespace {

std::int64_t replicas_of(const PlannedStage& stage) { return std::ssize(stage.devices); }

// --- the recurrence's links -----------------------------------------------------------------------------

/// What the recurrence has for a cut, as a message of the walk has it. The walk gives each pair of replicas a
/// channel of its own. A link of the recurrence takes the pairs of replicas that cross it in turn: a message
/// is on its way for half of what a minibatch takes there and back, and its pair's next one comes when all
/// others have had theirs.
struct CutTimes {
  Ns hold_ns = 0;
  Ns arrival_ns = 0;
};

CutTimes cut_times(const PipelinePlan& plan, std::int32_t stage) {
  const auto s = static_cast<std::size_t>(stage);
  const PlannedStage& before = plan.stages[s];
  const std::int64_t pairs = std::lcm(replicas_of(before), replicas_of(plan.stages[s + 1]));
  // A pair sends one of so many minibatches, and holds its channel as long as the cut's links need for all.
  return {.hold_ns = std::llround(before.cut_ns * static_cast<double>(pairs) / before.cut_links),
          .arrival_ns = std::llround(before.cut_ns / 2)};
}

/// The recurrence gives each minibatch its part of a reduction; the ring runs once for one minibatch of
/// every replica.
Ns reduction_hold_ns(const PlannedStage& stage) {
  return std::llround(stage.reduction_ns * static_cast<double>(replicas_of(stage)));
}

/// By message: how long it holds its channel and how much later it arrives.
WalkDurations durations_with(FactorSet on, const Experiment& experiment, const FlatProgram& flat,
                             const PipelinePlan& plan) {
  WalkDurations durations = walk_durations(experiment, flat);
  CollectiveRings rings(experiment);
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    const FlatMessage& message = flat.messages[id];
    const Action& action = flat.actions[static_cast<std::size_t>(message.first)];
    if (is_collective(action.kind)) {
      const RingCost& ring = rings.of(action).cost;
      durations.hold[id] = on.has(PlanFactor::ring)
                               ? serialization_ns(ring.bytes_per_link, ring.bytes_per_second)
                               : reduction_hold_ns(plan.stages[static_cast<std::size_t>(action.stage)]);
      if (on.has(PlanFactor::latency)) durations.hold[id] += ring.latency_ns;
    } else {
      if (!on.has(PlanFactor::latency)) durations.latency[id] = 0;
      if (on.has(PlanFactor::transfers)) continue;
      const CutTimes cut = cut_times(plan, std::min(action.stage, action.peer));
      durations.hold[id] = cut.hold_ns;
      // The message arrives when the recurrence has it, also where the link is held for longer than that:
      // what is added may be negative.
      durations.latency[id] += cut.arrival_ns - cut.hold_ns;
    }
  }
  return durations;
}

// --- the program ----------------------------------------------------------------------------------------

/// A stage that waits for its first backward must have sent what the stage behind takes in before its own:
/// r (w + 1) > r' w'.
std::int32_t least_warmup(const PlannedStage& stage, const PlannedStage& behind, std::int32_t its_warmup) {
  return static_cast<std::int32_t>(replicas_of(behind) * its_warmup / replicas_of(stage));
}

/// Forwards before each stage's first backward that keep everybody supplied: what passes in the time from a
/// stage's forward to its backward, where each stage behind may let a minibatch wait for another one.
std::vector<std::int32_t> deep_warmups(const PipelinePlan& plan) {
  std::vector<std::int32_t> warmups(plan.stages.size());
  double round_trip_ns = 0;
  std::int64_t in_flight = 0;
  // From the last stage up: what is on its way behind a stage is the sum over all stages behind it.
  for (std::size_t s = plan.stages.size(); s-- > 0;) {
    const PlannedStage& stage = plan.stages[s];
    const bool is_last = s + 1 == plan.stages.size();
    round_trip_ns += 2 * static_cast<double>(stage.compute_ns + reduction_hold_ns(stage));
    if (!is_last)
      round_trip_ns += 4 * static_cast<double>(cut_times(plan, static_cast<std::int32_t>(s)).hold_ns);
    in_flight += 2 * replicas_of(stage);
    // Minibatches that pass in that time, one a period.
    const double passing = plan.period_ns > 0 ? round_trip_ns / plan.period_ns : 0;
    const double wanted =
        (static_cast<double>(in_flight) + passing) / static_cast<double>(replicas_of(stage));
    warmups[s] = static_cast<std::int32_t>(std::ceil(wanted));
    if (!is_last) warmups[s] = std::max(warmups[s], least_warmup(stage, plan.stages[s + 1], warmups[s + 1]));
  }
  return warmups;
}

/// Every STEP that waits for a reduction moves to the one after it, so that a forward and a backward hide it:
///   B0 REDUCE0 STEP0 F1 B1 REDUCE1 STEP1     becomes     B0 REDUCE0 F1 B1 STEP0 REDUCE1 .. STEP1
/// Ranks that reduce nothing keep their lists.
Program with_updates_one_minibatch_later(Program program) {
  for (std::vector<Action>& list : program.ranks) {
    std::optional<Action> step;  // that is on its way to the next reduction
    std::vector<Action> later;
    bool reduces = false;
    for (Action& action : list) {
      if (action.kind == ActionKind::reduce_grad) {
        if (step) later.push_back(*step);
        step.reset();
        reduces = true;
      } else if (action.kind == ActionKind::step && reduces) {
        step = action;
        continue;
      } else if (has_weight_version(action.kind) && reduces) {
        // The update that it would have seen is not there yet. Before the first one there is version 0.
        action.weight_version = std::max(0, action.weight_version - 1);
      }
      later.push_back(action);
    }
    if (step) later.push_back(*step);
    list = std::move(later);
  }
  return program;
}

// --- one simulation -------------------------------------------------------------------------------------

/// The planned scenario with the factors that are on, as a stream of so many minibatches.
Scenario scenario_with(FactorSet on, const PlannedScenario& planned, std::int64_t minibatches) {
  Scenario scenario = planned.scenario;
  scenario.batch.microbatches = minibatches;
  if (!on.has(PlanFactor::buckets)) scenario.shape.buckets.clear();
  if (!on.has(PlanFactor::depth)) scenario.shape.warmup = deep_warmups(planned.plan);
  if (!on.has(PlanFactor::transfers)) scenario.channels = ChannelOptions{};
  return scenario;
}

/// What both ways of running it have in common.
struct Times {
  FlatProgram flat;
  ProgramTimes times;
};
using Simulated = tl::expected<Times, std::string>;

/// By the walk alone, since the engines take durations from links. Error: the hang.
Simulated walked(FactorSet on, const Experiment& experiment, const PipelinePlan& plan) {
  FlatProgram flat =
      flatten(experiment.program, experiment.costs, {.channels = experiment.channels, .iterations = 1});
  auto times = walk(flat, durations_with(on, experiment, flat, plan), experiment.channels);
  if (times) return Times{.flat = std::move(flat), .times = *std::move(times)};
  return tl::unexpected(hang_of(flat, times.error(), experiment.channels).message);
}

Simulated simulated(FactorSet on, const PlannedScenario& planned, std::int64_t minibatches) {
  const Scenario scenario = scenario_with(on, planned, minibatches);
  // Before the lists are made: many replicas of different numbers need a stream of many turns.
  if (auto refusal = lists_refusal(scenario)) return tl::unexpected(*std::move(refusal));
  auto experiment = prepare(scenario);
  if (!experiment) return tl::unexpected(std::move(experiment.error().message));
  const bool overlaps = !on.has(PlanFactor::overlap) && planned.objective != PlanObjective::sum;
  if (overlaps) experiment->program = with_updates_one_minibatch_later(std::move(experiment->program));
  // Without contention every message has its link to itself, which the walk with given durations says;
  // shared links need an engine.
  if (!on.has(PlanFactor::contention)) return walked(on, *experiment, planned.plan);
  auto run = run_engine(*experiment, Engine::automatic);
  if (!run) return tl::unexpected(std::move(run.error().message));
  return Times{.flat = std::move(run->flat), .times = std::move(run->times)};
}

// --- its period -----------------------------------------------------------------------------------------

/// When each minibatch has left the pipeline.
std::vector<Ns> completions(const Times& stream, std::int64_t minibatches) {
  std::vector<Ns> ends(static_cast<std::size_t>(minibatches), 0);
  for (std::size_t position = 0; position < stream.flat.actions.size(); ++position) {
    const Action& action = stream.flat.actions[position];
    // The backward of the first stage is the last thing that happens to a minibatch.
    if (action.stage == 0 && action.kind == ActionKind::backward)
      ends[static_cast<std::size_t>(action.microbatch)] = stream.times.end[position];
  }
  return ends;
}

/// The minibatches of a stream that neither fill the pipeline nor drain it.
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Whether each minibatch of the stretch ends by the same time later than the one so many before it.
bool moves_by_one_amount(const std::vector<Ns>& ends, const Stretch& stretch, std::size_t minibatches) {
  const Ns amount = ends[stretch.begin + minibatches] - ends[stretch.begin];
  for (std::size_t g = stretch.begin; g + minibatches < stretch.end; ++g) {
    if (ends[g + minibatches] - ends[g] != amount) return false;
  }
  return true;
}

StreamPeriod period_of(const std::vector<Ns>& ends, const Stretch& stretch, std::size_t multiple) {
  const auto mean = [&](std::size_t minibatches) {
    return static_cast<double>(ends[stretch.begin + minibatches] - ends[stretch.begin]) /
           static_cast<double>(minibatches);
  };
  const std::size_t all = (stretch.end - 1 - stretch.begin) / multiple * multiple;
  // The shortest period is taken, and only one that the stretch shows at least twice. Replicas take turns,
  // so that only whole turns of all stages are tried.
  for (std::size_t minibatches = multiple; 2 * minibatches <= all; minibatches += multiple) {
    if (moves_by_one_amount(ends, stretch, minibatches))
      return {.period_ns = mean(minibatches), .is_exact = true};
  }
  return {.period_ns = mean(all), .is_exact = false};
}

/// On the first stage, which has most: those at the end of a stream drain it.
std::int64_t minibatches_in_flight(FactorSet on, const PipelinePlan& plan) {
  const PlannedStage& first = plan.stages.front();
  const std::int32_t each = on.has(PlanFactor::depth) ? first.in_flight : deep_warmups(plan).front() + 1;
  return each * replicas_of(first);
}

tl::expected<StreamPeriod, std::string> steady_period(FactorSet on, const PlannedScenario& planned) {
  const auto turn = turn_of_all_replicas(planned.plan);
  if (!turn) return tl::unexpected(turn.error());
  const std::int64_t multiple = *turn;
  const std::int64_t in_flight = minibatches_in_flight(on, planned.plan);
  constexpr std::int64_t kLongest = 1 << 15;
  // Of sixteen turns of all replicas nine are left between what fills the pipeline and what drains it.
  std::int64_t length = (4 * in_flight + 64 + 16 * multiple) / multiple * multiple;
  while (true) {
    const auto stream = simulated(on, planned, length);
    if (!stream) return tl::unexpected(stream.error());
    // The first third fills the pipeline; what is in flight at the end drains it.
    const Stretch stretch{.begin = static_cast<std::size_t>(length / 3),
                          .end = static_cast<std::size_t>(length - in_flight - multiple)};
    const StreamPeriod period =
        period_of(completions(*stream, length), stretch, static_cast<std::size_t>(multiple));
    // A stream that shows no period may only be too short.
    if (period.is_exact || 4 * length > kLongest) return period;
    length *= 4;
  }
}

}  // namespace

FactorSet FactorSet::with(PlanFactor factor) const {
  FactorSet set = *this;
  set.bits_ |= 1U << static_cast<unsigned>(factor);
  // Buckets are stages of their own, of which the recurrence's links and updates know nothing.
  if (factor == PlanFactor::buckets) return set.with(PlanFactor::contention).with(PlanFactor::overlap);
  if (factor != PlanFactor::contention) return set;
  return set.with(PlanFactor::transfers).with(PlanFactor::ring).with(PlanFactor::latency);
}

tl::expected<StreamPeriod, std::string> simulated_period(const PlannedScenario& planned, FactorSet on) {
  if (!on.has(PlanFactor::ends)) return steady_period(on, planned);
  const std::int64_t minibatches = *planned.scenario.batch.microbatches;
  const auto run = simulated(on, planned, minibatches);
  if (!run) return tl::unexpected(run.error());
  return StreamPeriod{
      .period_ns = static_cast<double>(last_end(run->times)) / static_cast<double>(minibatches),
      .is_exact = true};
}

}  // namespace penstock
