// Simulates a plan without some of the factors that the planner's recurrence ignores (PlanFactor). To turn a
// factor off, this file changes the input of the engines: the warm-up in the schedule, the position of STEP
// in the program, or the durations of messages.
//
//     planned scenario --scenario_with()--> program --STEPs later--> walk with durations_with(), or an engine
//         --completions()--> ends of minibatches --period_of()--> period
//
// plan_evaluation.cpp simulates the plan itself, with all factors. Tests: tests/sim/plan_evaluation_test.cpp.

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

#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/choose/plan_search.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"
#include "topology/collective.hpp"

namespace penstock {

namespace {

std::int64_t replicas_of(const PlannedStage& stage) { return std::ssize(stage.devices); }

// --- the recurrence's links -----------------------------------------------------------------------------

/// The times of a message between two stages in walk(), which reproduce the link of the planner's recurrence.
/// In walk(), each pair of replicas has its own channel. In the recurrence, one link serves all pairs, one
/// after the other. Therefore a message arrives after half of the time that a minibatch needs in both
/// directions. Its channel stays busy until all other pairs have sent as well.
struct CutTimes {
  Ns hold_ns = 0;
  Ns arrival_ns = 0;
};

CutTimes cut_times(const PipelinePlan& plan, std::int32_t stage) {
  const auto s = static_cast<std::size_t>(stage);
  const PlannedStage& before = plan.stages[s];
  const std::int64_t pairs = std::lcm(replicas_of(before), replicas_of(plan.stages[s + 1]));
  // Each pair carries one of `pairs` minibatches, so its channel is busy for the time that the cut's links
  // need for all of them.
  return {.hold_ns = std::llround(before.cut_ns * static_cast<double>(pairs) / before.cut_links),
          .arrival_ns = std::llround(before.cut_ns / 2)};
}

/// Returns the time for which a ring all-reduce occupies its channel in walk(). In the recurrence, each
/// minibatch takes a part of the reduction's time. In walk(), one all-reduce for one minibatch of every
/// replica takes the sum of these parts.
Ns reduction_hold_ns(const PlannedStage& stage) {
  return std::llround(stage.reduction_ns * static_cast<double>(replicas_of(stage)));
}

/// Returns the durations of messages for walk(): the time for which a message occupies its channel, and the
/// additional time until it arrives.
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
      // The message may arrive before its channel is free again, so the latency may be negative.
      durations.latency[id] += cut.arrival_ns - cut.hold_ns;
    }
  }
  return durations;
}

// --- the program ----------------------------------------------------------------------------------------

/// Returns the smallest warm-up w of a stage with which the next stage never waits for input. With r
/// replicas of the stage, and r' replicas and a warm-up w' of the next stage, r (w + 1) > r' w' must hold.
/// Then the stage sends enough forward passes for the next stage's warm-up before its own first backward
/// pass.
std::int32_t least_warmup(const PlannedStage& stage, const PlannedStage& behind, std::int32_t its_warmup) {
  return static_cast<std::int32_t>(replicas_of(behind) * its_warmup / replicas_of(stage));
}

/// Returns, for each stage, a number of warm-up forward passes with which no stage ever waits for input. It
/// is the number of minibatches that pass the stage between the forward and the backward pass of one
/// minibatch. Each replica of this stage and of the later stages adds two more.
std::vector<std::int32_t> deep_warmups(const PipelinePlan& plan) {
  std::vector<std::int32_t> warmups(plan.stages.size());
  double round_trip_ns = 0;
  std::int64_t in_flight = 0;
  // The loop starts at the last stage, because the values of a stage are sums over all later stages.
  for (std::size_t s = plan.stages.size(); s-- > 0;) {
    const PlannedStage& stage = plan.stages[s];
    const bool is_last = s + 1 == plan.stages.size();
    round_trip_ns += 2 * static_cast<double>(stage.compute_ns + reduction_hold_ns(stage));
    if (!is_last)
      round_trip_ns += 4 * static_cast<double>(cut_times(plan, static_cast<std::int32_t>(s)).hold_ns);
    in_flight += 2 * replicas_of(stage);
    // The number of minibatches that pass in this time, because one passes in each period.
    const double passing = plan.period_ns > 0 ? round_trip_ns / plan.period_ns : 0;
    const double wanted =
        (static_cast<double>(in_flight) + passing) / static_cast<double>(replicas_of(stage));
    warmups[s] = static_cast<std::int32_t>(std::ceil(wanted));
    if (!is_last) warmups[s] = std::max(warmups[s], least_warmup(stage, plan.stages[s + 1], warmups[s + 1]));
  }
  return warmups;
}

/// Moves every STEP that waits for a reduction behind the next backward, so that a forward and a backward
/// hide the reduction:
///
///     B0 REDUCE0 STEP0 F1 B1 REDUCE1 STEP1     becomes     B0 REDUCE0 F1 B1 STEP0 REDUCE1 .. STEP1
///
/// The lists of ranks without a reduction stay unchanged.
Program with_updates_one_minibatch_later(Program program) {
  for (std::vector<Action>& list : program.ranks) {
    std::optional<Action> step;  // the STEP that is inserted before the next reduction
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
        // One update that came before this action now comes after it, so the version is one less. The least
        // version is 0.
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

/// Returns the scenario of the plan for a stream of `minibatches` minibatches. Effects (PlanFactor) that are
/// not in `on` are removed from it.
Scenario scenario_with(FactorSet on, const PlannedScenario& planned, std::int64_t minibatches) {
  Scenario scenario = planned.scenario;
  scenario.batch.microbatches = minibatches;
  if (!on.has(PlanFactor::buckets)) scenario.shape.buckets.clear();
  if (!on.has(PlanFactor::depth)) scenario.shape.warmup = deep_warmups(planned.plan);
  if (!on.has(PlanFactor::transfers)) scenario.channels = ChannelOptions{};
  return scenario;
}

/// The times of a run, which walk() or an engine has computed.
struct Times {
  FlatProgram flat;
  ProgramTimes times;
};
using Simulated = tl::expected<Times, std::string>;

/// Runs the program with walk(), which accepts any durations. The engines would compute durations from links.
/// Returns an error if the program hangs.
Simulated walked(FactorSet on, const Experiment& experiment, const PipelinePlan& plan) {
  FlatProgram flat =
      flatten(experiment.program, experiment.costs, {.channels = experiment.channels, .iterations = 1});
  auto times = walk(flat, durations_with(on, experiment, flat, plan), experiment.channels);
  if (times) return Times{.flat = std::move(flat), .times = *std::move(times)};
  return tl::unexpected(hang_of(flat, times.error(), experiment.channels).message);
}

Simulated simulated(FactorSet on, const PlannedScenario& planned, std::int64_t minibatches) {
  const Scenario scenario = scenario_with(on, planned, minibatches);
  // The length is checked before the lists are generated, because a plan with different numbers of replicas
  // may need a very long stream.
  if (auto refusal = lists_refusal(scenario)) return tl::unexpected(*std::move(refusal));
  auto experiment = prepare(scenario);
  if (!experiment) return tl::unexpected(std::move(experiment.error().message));
  const bool overlaps = !on.has(PlanFactor::overlap) && planned.objective != PlanObjective::sum;
  if (overlaps) experiment->program = with_updates_one_minibatch_later(std::move(experiment->program));
  // Without contention, no links are shared, so the walk with given durations is enough. Shared links need an
  // engine.
  if (!on.has(PlanFactor::contention)) return walked(on, *experiment, planned.plan);
  auto run = run_engine(*experiment, Engine::automatic);
  if (!run) return tl::unexpected(std::move(run.error().message));
  return Times{.flat = std::move(run->flat), .times = std::move(run->times)};
}

// --- its period -----------------------------------------------------------------------------------------

/// Returns the time at which each minibatch leaves the pipeline.
std::vector<Ns> completions(const Times& stream, std::int64_t minibatches) {
  std::vector<Ns> ends(static_cast<std::size_t>(minibatches), 0);
  for (std::size_t position = 0; position < stream.flat.actions.size(); ++position) {
    const Action& action = stream.flat.actions[position];
    // A minibatch ends with its backward pass on the first stage.
    if (action.stage == 0 && action.kind == ActionKind::backward)
      ends[static_cast<std::size_t>(action.microbatch)] = stream.times.end[position];
  }
  return ends;
}

/// The minibatches of a stream while its pipeline is full: [begin, end).
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Returns true if the ends in `stretch` repeat: minibatch g + `minibatches` ends a constant time after
/// minibatch g, for every g.
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
  // Returns the shortest period that occurs at least twice in the stretch. Replicas take turns with
  // minibatches, so only whole rounds of all replicas are tried.
  for (std::size_t minibatches = multiple; 2 * minibatches <= all; minibatches += multiple) {
    if (moves_by_one_amount(ends, stretch, minibatches))
      return {.period_ns = mean(minibatches), .is_exact = true};
  }
  return {.period_ns = mean(all), .is_exact = false};
}

/// Returns the number of minibatches in flight at the first stage, which has the most. At the end of the
/// stream, the pipeline drains during this number of minibatches.
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
  // The stream has at least sixteen rounds of all replicas. The pipeline is then full for at least nine of
  // them.
  std::int64_t length = (4 * in_flight + 64 + 16 * multiple) / multiple * multiple;
  while (true) {
    const auto stream = simulated(on, planned, length);
    if (!stream) return tl::unexpected(stream.error());
    // The pipeline fills during the first third, and drains during the last minibatches, which are in flight
    // at the end.
    const Stretch stretch{.begin = static_cast<std::size_t>(length / 3),
                          .end = static_cast<std::size_t>(length - in_flight - multiple)};
    const StreamPeriod period =
        period_of(completions(*stream, length), stretch, static_cast<std::size_t>(multiple));
    // If there is no period, the stream may be too short, so a longer one is tried.
    if (period.is_exact || 4 * length > kLongest) return period;
    length *= 4;
  }
}

}  // namespace

FactorSet FactorSet::with(PlanFactor factor) const {
  FactorSet set = *this;
  set.bits_ |= 1U << static_cast<unsigned>(factor);
  // Gradient buckets are separate stages in the program. The recurrence's links and updates are not defined
  // for such stages, so contention and overlap must be on as well.
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
