// Simulates plans and caches the results. A trial is a run of the plan's scenario. Its stream of minibatches
// is the shortest one that `simulate` would try. Its result is the steady period. If the period is exact,
// `simulate` finds the same one. If the pipeline is flushed before each update, a trial is one minibatch, and
// the period is its time divided by the number of microbatches. plan_choice.cpp computes bounds without a
// simulation. Tests: tests/sim/plan_search_test.cpp.

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
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

namespace {

/// Returns the number of all devices, which is the product over the levels.
std::int32_t device_count(const PlanningTask& task) {
  std::int32_t devices = 1;
  for (const BandwidthLevel& level : task.levels) devices *= level.components;
  return devices;
}

/// Returns the number of warm-up forwards of each stage.
std::vector<std::int32_t> warmups(const PlanChoice& choice) {
  std::vector<std::int32_t> counts;
  std::int32_t later = choice.device_count();
  for (std::size_t s = 0; s < choice.stages(); ++s) {
    later -= choice.replicas[s];
    counts.push_back(warmup_of(choice, s, later));
  }
  return counts;
}

/// The largest number of actions in one stream, and in all stored layouts together. So many actions take
/// about two gigabytes.
constexpr std::int64_t kMostTriedActions = 1 << 23;

/// Returns the number of minibatches that a stream needs to show its period. It is at least four times the
/// number of minibatches that depend on each other. This number may be large. For example, 43, 41, 37 and 7
/// replicas form the same pairs again only after 456 617 minibatches. Returns nothing if the stream would
/// have more than kMostTriedActions actions. If the pipeline is flushed before each update, returns the
/// microbatches of one minibatch.
std::optional<std::int64_t> stream_length(const PlanChoice& choice, std::int32_t microbatches) {
  // For each minibatch, a stage has F, B, STEP and a reduction, and a cut has a SEND and a RECV in each
  // direction.
  const std::int64_t most = kMostTriedActions / (8 * std::ssize(choice.replicas));
  if (microbatches > 0)
    return microbatches <= most ? std::optional<std::int64_t>(microbatches) : std::nullopt;
  std::int64_t multiple = 1;
  std::int64_t depth = 1;
  const std::vector<std::int32_t> warmup = warmups(choice);
  for (std::size_t s = 0; s < choice.stages(); ++s) {
    const std::int64_t replicas = choice.replicas[s];
    multiple = std::lcm(multiple, replicas);
    // The check is in the loop, because with many stages the multiple would overflow.
    if (multiple > most) return std::nullopt;
    depth = std::max(depth, (warmup[s] + 1) * replicas + 1);
  }
  const std::int64_t least = std::max(4 * (depth + 1) + 64, 2 * (depth + 1) + 3 * multiple);
  // The length is a multiple of all numbers of replicas, so that the last round of each stage is complete.
  const std::int64_t length = (least + multiple - 1) / multiple * multiple;
  return length <= most ? std::optional(length) : std::nullopt;
}

/// Returns true if the stream of minibatches hangs. The result does not depend on durations. It depends on
/// message sizes only if messages are eager.
bool stream_hangs(const FlatProgram& flat, const ChannelOptions& channels) {
  return !walk(flat, {}, channels).has_value();
}

std::vector<std::int32_t> identity(std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

constexpr std::size_t kMostLayouts = 256;  // largest number of stored layouts
// The period of a plan that cannot run. It is infinite, so comparisons need no special case.
constexpr double kCannotRun = std::numeric_limits<double>::infinity();

}  // namespace

PlanTrials::PlanTrials(const Scenario& scenario, const PlanningTask& task)
    : scenario_(scenario), task_(task), devices_(device_count(task)) {
  // The cluster is the same for every plan. It is taken from the scenario of a plan with one stage on all
  // devices, in which the devices are in order.
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

// Each order of layers has its own PlanBound, because the bytes that a cut sends depend on the layers before
// it.
std::size_t PlanTrials::add_order(std::vector<std::int32_t> layers) {
  const PlanReductions reductions{.in_buckets = !scenario_.shape.buckets.empty(),
                                  .microbatches = task_.microbatches};
  bounds_.emplace_back(task_.layers, layers, task_.levels, cluster_, reductions,
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
  // If two orders differ only inside stages, they have equal stages, so the number of the known order is
  // returned.
  const auto known = std::ranges::find_if(orders_, has_the_stages);
  return known != orders_.end() ? static_cast<std::size_t>(known - orders_.begin())
                                : add_order(std::move(layers));
}

// Returns the plan with the recurrence's periods, bytes and memory, which are printed with the simulated
// figures.
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
    // Inside a stage, the layers have the order of the model, in which they can run.
    std::ranges::sort(stage.layers);
    stage.devices.assign(device, device + choice.replicas[s]);
    layer = end;
    device += choice.replicas[s];
  }
  PipelinePlan plan = stated_plan(task_.layers, task_.levels, stages, task_.state_bytes_per_weight_byte);
  for (PlannedStage& stage : plan.stages) stage.in_flight += choice.deeper;
  return with_flush_of(std::move(plan), task_);
}

tl::expected<PlannedScenario, std::string> PlanTrials::scenario_of(const PlanChoice& choice) const {
  auto planned = scenario_of_plan(scenario_, task_, plan_of(choice));
  if (!planned) return planned;
  // The recurrences choose neither buckets nor additional warm-up forwards, so scenario_of_plan() does not
  // set them.
  Shape& shape = planned->scenario.shape;
  if (choice.buckets > 0) shape.buckets = {choice.buckets};
  // If there are no additional forwards, the warm-ups are those of the rule and need not be stated.
  if (choice.deeper > 0) shape.warmup = warmups(choice);
  return planned;
}

// Returns all properties on which lists and messages depend, apart from their costs. Buckets that the
// scenario states for each stage are ignored, because they belong to other stages.
PlanTrials::LayoutKey PlanTrials::key_of(const PlanChoice& choice) const {
  LayoutKey key{.replicas = choice.replicas,
                .devices = devices_of(choice, task_.levels),
                .buckets = {},
                .deeper = choice.deeper};
  const std::vector<std::int32_t>& stated = scenario_.shape.buckets;
  const std::int32_t most = choice.buckets > 0 ? choice.buckets : stated.size() == 1 ? stated.front() : 1;
  if (most == 1) return key;
  for (std::size_t s = 0; s < choice.stages(); ++s) {
    // As in the program, a stage has at most as many buckets as layers.
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
  // When the limit is reached, all layouts are removed. Trials are cached, so old layouts are rarely needed
  // again.
  if (layouts_.size() >= kMostLayouts || stored_actions_ >= kMostTriedActions) {
    layouts_.clear();
    stored_actions_ = 0;
  }
  auto experiment = prepare(scenario, ProgramForm::lists);
  if (!experiment) {
    // The error may come from the costs of these cuts, and other cuts may be valid. So no entry is made for
    // the layout. The generated actions are counted.
    actions_ += static_cast<std::int64_t>(compute_actions(scenario));
    return nullptr;
  }
  std::optional<Layout>& entry = layouts_[std::move(key)];
  // An empty entry means that the program cannot run. If a step below fails, the entry stays empty. Programs
  // are not validated here, because schedules generate valid programs.
  auto lowered = lower(experiment->program, experiment->channels);
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
  // Choices that differ only in their cuts use the same layout. If this trial ends early, the times in the
  // layout belong to no choice. So last_ must be empty until then.
  last_.reset();
  Trial trial{.period_ns = kCannotRun};
  const std::optional<std::int64_t> minibatches = stream_length(choice, task_.microbatches);
  if (!minibatches) return trial;
  auto planned = scenario_of(choice);
  if (!planned) return trial;
  planned->scenario.batch.microbatches = minibatches;
  Layout* layout = layout_of(choice, planned->scenario);
  if (layout == nullptr) return trial;
  auto& [experiment, run, shares_links] = *layout;
  auto costs = costs_of_cut(planned->scenario, experiment.program);
  // prepare() has checked the costs of the layout's first cuts. The costs of these cuts must be checked as
  // well.
  if (!costs || byte_fault(experiment.program, *costs)) return trial;
  if (time_fault(experiment.program, *costs, experiment.cluster)) return trial;
  // Plans with the same replicas on the same devices have the same lists and messages. Other cuts only change
  // the costs.
  experiment.costs = *std::move(costs);
  run.flat = with_bytes_of(std::move(run.flat), experiment.program, experiment.costs);
  const WalkDurations durations = walk_durations(experiment, run.flat);
  actions_ += std::ssize(run.flat.actions);
  if (shares_links) {
    // The event engine requires a program that does not hang. With eager messages, this depends on the
    // message sizes of these cuts.
    if (experiment.channels.eager_bytes > 0 && stream_hangs(run.flat, experiment.channels)) return trial;
    run.times = event_walk(experiment, run.flat, durations);
  } else if (auto times = walk(run.flat, durations, experiment.channels)) {
    run.times = *std::move(times);
  } else {
    return trial;
  }
  if (task_.microbatches > 0) {
    trial.period_ns = static_cast<double>(last_end(run.times)) / task_.microbatches;
    last_ = choice;
    if (asked == Asked::memory) trial.peak_bytes = highest_peak(*layout);
    return trial;
  }
  const StreamRate rate = rate_of_stream(run, experiment.program);
  // There is no rate if the stream is too short for whole rounds of all replicas.
  if (rate.period.microbatches == 0) return trial;
  last_ = choice;
  trial.period_ns =
      static_cast<double>(rate.period.period_ns) / static_cast<double>(rate.period.microbatches);
  trial.is_exact = rate.is_exact;
  if (asked == Asked::memory) trial.peak_bytes = highest_peak(*layout);
  return trial;
}

// The peak memory needs another pass over the times of the run. The pass is made only if the caller needs the
// peak.
Trial& PlanTrials::trial_of(const PlanChoice& choice, Asked asked) {
  const auto [entry, fresh] = trials_.try_emplace(choice);
  Trial& trial = entry->second;
  if (fresh) trial = tried(choice, asked);
  if (asked == Asked::period || trial.peak_bytes) return trial;
  // If this plan ran last, its times are still stored.
  const bool ran_last = last_ && *last_ == choice;
  trial.peak_bytes =
      // The layout still exists, because layouts are removed only by a later trial.
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
  // The stream of the trial was the first attempt and is not repeated.
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
