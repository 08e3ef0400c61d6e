// Simulates plans and caches the results. A trial is the run that `simulate` would make of the same scenario.
// It is one stream that fills its pipeline, and the period is the time after which it repeats. The stream has
// the shortest length of endless_stream.hpp. An exact rate equals the rate that `simulate` prints.
// plan_choice.cpp gives bounds without a simulation. Tests: tests/sim/plan_search_test.cpp.

#include "sim/choose/plan_trials.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/prepare/program_checks.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/lower.hpp"
#include "sim/choose/plan_choice.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/endless_stream.hpp"

namespace penstock {

namespace {

/// Returns the devices of all levels: components of components.
std::int32_t device_count(const PlanningTask& task) {
  std::int32_t devices = 1;
  for (const BandwidthLevel& level : task.levels) devices *= level.components;
  return devices;
}

/// Returns for each stage the number of forwards before its first backward.
std::vector<std::int32_t> warmups(const PlanChoice& choice) {
  std::vector<std::int32_t> counts;
  std::int32_t later = choice.device_count();
  for (std::size_t s = 0; s < choice.stages(); ++s) {
    later -= choice.replicas[s];
    counts.push_back(warmup_of(choice, s, later));
  }
  return counts;
}

/// Limit of the actions of a stream, and of all stored layouts together. So many actions need about two
/// gigabytes.
constexpr std::int64_t kMostTriedActions = 1 << 23;

/// Returns the number of minibatches of a stream that shows its period: four times as many as depend on each
/// other. Returns nothing if the stream would exceed kMostTriedActions. For example, replicas of 43, 41, 37
/// and 7 have the same pairs again only after 456 617 minibatches.
std::optional<std::int64_t> stream_length(const PlanChoice& choice) {
  // Each stage has F, B, STEP and a reduction, and each cut a SEND and a RECV in each direction.
  const std::int64_t most = kMostTriedActions / (8 * std::ssize(choice.replicas));
  std::int64_t multiple = 1;
  std::int64_t depth = 1;
  const std::vector<std::int32_t> warmup = warmups(choice);
  for (std::size_t s = 0; s < choice.stages(); ++s) {
    const std::int64_t replicas = choice.replicas[s];
    multiple = std::lcm(multiple, replicas);
    // The check is made at each stage, because with many stages the multiple would overflow.
    if (multiple > most) return std::nullopt;
    depth = std::max(depth, (warmup[s] + 1) * replicas + 1);
  }
  const std::int64_t least = std::max(4 * (depth + 1) + 64, 2 * (depth + 1) + 3 * multiple);
  // The length is a multiple of the rounds of all replicas, so that each stage's last round is complete.
  const std::int64_t length = (least + multiple - 1) / multiple * multiple;
  return length <= most ? std::optional(length) : std::nullopt;
}

/// Returns whether the stream hangs. This does not depend on durations, but with eager messages it depends on
/// sizes.
bool stream_hangs(const FlatProgram& flat, const ChannelOptions& channels) {
  return !walk(flat, {}, channels).has_value();
}

std::vector<std::int32_t> identity(std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

constexpr std::size_t kMostLayouts = 256;  // number of layouts that are stored at a time
// An infinite period is slower than any other, so comparisons need no special case.
constexpr double kCannotRun = std::numeric_limits<double>::infinity();

}  // namespace

PlanTrials::PlanTrials(const Scenario& scenario, const PlanningTask& task)
    : scenario_(scenario), task_(task), devices_(device_count(task)) {
  // The cluster is the same for every plan. It is made with one stage on all devices, which leaves their
  // order unchanged.
  const std::vector<StatedStage> all = {{.layers = identity(task.layers.layers.size()),
                                         .devices = identity(static_cast<std::size_t>(devices_))}};
  const auto in_order = scenario_of_plan(
      scenario, task, stated_plan(task.layers, task.levels, all, task.state_bytes_per_weight_byte));
  if (!in_order) {
    error_ = in_order.error();
    return;
  }
  auto built = build_cluster(in_order->scenario.cluster, devices_);
  if (!built) {
    error_ = built.error();
    return;
  }
  cluster_ = *std::move(built);
  add_order(all.front().layers);
}

// Each order has its own bound, because the bytes that a cut sends depend on the layers before it.
std::size_t PlanTrials::add_order(std::vector<std::int32_t> layers) {
  bounds_.emplace_back(task_.layers, layers, task_.levels, cluster_, !scenario_.shape.buckets.empty(),
                       1 + task_.state_bytes_per_weight_byte);
  orders_.push_back(std::move(layers));
  return orders_.size() - 1;
}

std::size_t PlanTrials::order_for(std::vector<std::int32_t> layers, const std::vector<std::int32_t>& cuts) {
  const auto has_the_stages = [&](const std::vector<std::int32_t>& order) {
    std::size_t begin = 0;
    for (std::size_t s = 0; s <= cuts.size(); ++s) {
      const std::size_t end = s < cuts.size() ? static_cast<std::size_t>(cuts[s]) : layers.size();
      const auto mine = std::span(order).subspan(begin, end - begin);
      if (!std::ranges::is_permutation(mine, std::span(layers).subspan(begin, end - begin))) return false;
      begin = end;
    }
    return true;
  };
  // Two orders that differ only inside of stages make the same stages, so they share a bound.
  const auto known = std::ranges::find_if(orders_, has_the_stages);
  return known != orders_.end() ? static_cast<std::size_t>(known - orders_.begin())
                                : add_order(std::move(layers));
}

// Returns the recurrence's figures for these stages: periods, bytes and memory. They are printed together
// with the simulated ones.
PipelinePlan PlanTrials::plan_of(const PlanChoice& choice) const {
  const std::vector<std::int32_t>& order = orders_[choice.order];
  const std::vector<std::int32_t> devices = devices_of(choice, task_.levels);
  std::vector<StatedStage> stages;
  auto layer = order.begin();
  auto device = devices.begin();
  for (std::size_t s = 0; s < choice.stages(); ++s) {
    const auto end = s < choice.cuts.size() ? order.begin() + choice.cuts[s] : order.end();
    StatedStage& stage = stages.emplace_back();
    stage.layers.assign(layer, end);
    // The layers of a stage get the model's order, in which they can run.
    std::ranges::sort(stage.layers);
    stage.devices.assign(device, device + choice.replicas[s]);
    layer = end;
    device += choice.replicas[s];
  }
  PipelinePlan plan = stated_plan(task_.layers, task_.levels, stages, task_.state_bytes_per_weight_byte);
  for (PlannedStage& stage : plan.stages) stage.in_flight += choice.deeper;
  return plan;
}

tl::expected<PlannedScenario, std::string> PlanTrials::scenario_of(const PlanChoice& choice) const {
  auto planned = scenario_of_plan(scenario_, task_, plan_of(choice));
  if (!planned) return planned;
  // No recurrence chooses these, so scenario_of_plan() does not set them.
  Shape& shape = planned->scenario.shape;
  if (choice.buckets > 0) shape.buckets = {choice.buckets};
  // The rule's own warm-ups are left out, so that the written scenario stays short.
  if (choice.deeper > 0) shape.warmup = warmups(choice);
  return planned;
}

// Returns all properties on which lists and messages depend, without their costs. The scenario may state
// buckets for each stage, but they belong to other stages, so scenario_of_plan() ignores them.
PlanTrials::LayoutKey PlanTrials::key_of(const PlanChoice& choice) const {
  LayoutKey key{.replicas = choice.replicas,
                .devices = devices_of(choice, task_.levels),
                .buckets = {},
                .deeper = choice.deeper};
  const std::vector<std::int32_t>& stated = scenario_.shape.buckets;
  const std::int32_t most = choice.buckets > 0 ? choice.buckets : stated.size() == 1 ? stated.front() : 1;
  if (most == 1) return key;
  for (std::size_t s = 0; s < choice.stages(); ++s) {
    // Like in the program, a stage has no more buckets than layers.
    const std::int32_t begin = s == 0 ? 0 : choice.cuts[s - 1];
    const std::int32_t end = s < choice.cuts.size() ? choice.cuts[s] : layers();
    key.buckets.push_back(std::min(most, end - begin));
  }
  return key;
}

PlanTrials::Layout* PlanTrials::layout_of(const PlanChoice& choice, const Scenario& scenario) {
  LayoutKey key = key_of(choice);
  const auto known = layouts_.find(key);
  if (known != layouts_.end()) return known->second ? &*known->second : nullptr;
  // All layouts are dropped at once. Trials are cached, so old layouts are rarely needed again.
  if (layouts_.size() >= kMostLayouts || stored_actions_ >= kMostTriedActions) {
    layouts_.clear();
    stored_actions_ = 0;
  }
  auto experiment = prepare(scenario, ProgramForm::lists);
  if (!experiment) {
    // The error may concern only the cost of this cut, so the layout is not marked. The generated actions are
    // counted.
    actions_ += static_cast<std::int64_t>(compute_actions(scenario));
    return nullptr;
  }
  std::optional<Layout>& entry = layouts_[std::move(key)];
  // An entry without a layout means that such a plan cannot run. The entry stays empty if a step below fails.
  // Rules generate valid programs, so they are not validated here. Tests compare the rate of every trial with
  // the rate of simulate().
  auto lowered = lower(experiment->program);
  if (!lowered) return nullptr;
  experiment->program = *std::move(lowered);
  FlatProgram flat =
      flatten(experiment->program, experiment->costs, {.channels = experiment->channels, .iterations = 1});
  const bool decides_by_size = experiment->channels.eager_bytes > 0;
  if (!decides_by_size && stream_hangs(flat, experiment->channels)) return nullptr;
  stored_actions_ += flat.actions.size();
  actions_ += std::ssize(flat.actions);
  const bool shares_links = links_are_shared(*experiment);
  entry = Layout{.experiment = *std::move(experiment),
                 .run = {.flat = std::move(flat), .times = {}},
                 .shares_links = shares_links};
  return &*entry;
}

Bytes PlanTrials::highest_peak(const Layout& layout) {
  Bytes peak = 0;
  for (const RankMemory& memory : memory_of(layout.run, layout.experiment, {.samples = false}))
    peak = std::max(peak, memory.peak_bytes);
  return peak;
}

Trial PlanTrials::tried(const PlanChoice& choice, Asked asked) {
  // Layouts are shared by all cuts. After a trial that ends early, a layout's times belong to no choice, so
  // last_ must be empty.
  last_.reset();
  Trial trial{.period_ns = kCannotRun};
  const std::optional<std::int64_t> minibatches = stream_length(choice);
  if (!minibatches) return trial;
  auto planned = scenario_of(choice);
  if (!planned) return trial;
  planned->scenario.batch.microbatches = minibatches;
  Layout* layout = layout_of(choice, planned->scenario);
  if (layout == nullptr) return trial;
  auto& [experiment, run, shares_links] = *layout;
  auto costs = costs_of_cut(planned->scenario, experiment.program);
  // prepare() checked the layout's first costs. These are the costs of another cut, so they are checked
  // again.
  if (!costs || byte_fault(experiment.program, *costs)) return trial;
  if (time_fault(experiment.program, *costs, experiment.cluster)) return trial;
  // Plans with the same replicas on the same devices have the same lists and messages. Other cuts change only
  // their costs.
  experiment.costs = *std::move(costs);
  run.flat = with_bytes_of(std::move(run.flat), experiment.program, experiment.costs);
  const WalkDurations durations = walk_durations(experiment, run.flat);
  actions_ += std::ssize(run.flat.actions);
  if (shares_links) {
    // The event engine requires a program that ends. With eager messages, this depends on the sizes of this
    // cut.
    if (experiment.channels.eager_bytes > 0 && stream_hangs(run.flat, experiment.channels)) return trial;
    run.times = event_walk(experiment, run.flat, durations);
  } else if (auto times = walk(run.flat, durations, experiment.channels)) {
    run.times = *std::move(times);
  } else {
    return trial;
  }
  const StreamRate rate = rate_of_stream(run, experiment.program);
  // The stream is too short for a whole round of all replicas.
  if (rate.period.microbatches == 0) return trial;
  last_ = choice;
  trial.period_ns =
      static_cast<double>(rate.period.period_ns) / static_cast<double>(rate.period.microbatches);
  trial.is_exact = rate.is_exact;
  if (asked == Asked::memory) trial.peak_bytes = highest_peak(*layout);
  return trial;
}

// The period comes from the times of a run, but memory takes another pass over them. This pass is made only
// if the caller needs memory.
Trial& PlanTrials::trial_of(const PlanChoice& choice, Asked asked) {
  const auto [entry, fresh] = trials_.try_emplace(choice);
  Trial& trial = entry->second;
  if (fresh) trial = tried(choice, asked);
  if (asked == Asked::period || trial.peak_bytes) return trial;
  // The plan that ran last need not run again.
  const bool ran_last = last_ && *last_ == choice;
  trial.peak_bytes =
      // Its layout still exists: only a trial drops layouts, and this was the last trial.
      ran_last ? highest_peak(*layouts_.at(key_of(choice))) : tried(choice, asked).peak_bytes.value_or(0);
  return trial;
}

bool PlanTrials::runs(const PlanChoice& choice) { return of(choice).period_ns != kCannotRun; }

bool PlanTrials::fits(const PlanChoice& choice) {
  if (!runs(choice)) return false;
  return !task_.options.memory_limit || peak_bytes(choice) <= *task_.options.memory_limit;
}

bool PlanTrials::may_fit(const PlanChoice& choice) const {
  if (!task_.options.memory_limit) return true;
  return bounds_[choice.order].peak_bytes(choice) <= static_cast<double>(*task_.options.memory_limit);
}

const Trial& PlanTrials::with_longer_stream(const PlanChoice& choice, int attempts) {
  Trial& trial = trial_of(choice, Asked::period);
  if (trial.attempts >= attempts || trial.is_exact) return trial;
  // The trial's own stream was the first attempt and is not repeated.
  const StreamQuestion question{.attempts = attempts, .known_without_period = trial.attempts, .peaks = false};
  trial.attempts = attempts;
  const auto planned = scenario_of(choice);
  if (!planned) return trial;
  const auto experiment = prepare(planned->scenario, ProgramForm::lists);
  if (!experiment) return trial;
  const auto stream = endless_stream(question, *experiment, Engine::automatic);
  if (!stream || !stream->samples_per_second) return trial;
  trial.period_ns = static_cast<double>(task_.minibatch_size) * 1e9 / *stream->samples_per_second;
  trial.is_exact = stream->is_exact;
  return trial;
}

Bytes PlanTrials::peak_bytes(const PlanChoice& choice) {
  return trial_of(choice, Asked::memory).peak_bytes.value_or(0);
}

std::vector<PlanChoice> PlanTrials::tried_choices() const {
  std::vector<PlanChoice> choices;
  choices.reserve(trials_.size());
  for (const auto& [choice, trial] : trials_) choices.push_back(choice);
  return choices;
}

const Trial* PlanTrials::known(const PlanChoice& choice) const {
  const auto found = trials_.find(choice);
  return found == trials_.end() ? nullptr : &found->second;
}

}  // namespace penstock
