// Simulates plans. The planner's recurrence ignores many effects, such as the filling of the pipeline,
// memory over time, and shared links. This file simulates a plan that the recurrence or a search has
// found. The resulting period is the steady period that `simulate` prints for the same scenario.
// plan_search.cpp searches for plans. Tests: tests/sim/plan_evaluation_test.cpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/digest.hpp"
#include "sim/choose/plan_search.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/sweep/parallel_loop.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

// --- one plan -------------------------------------------------------------------------------------------

/// Returns, for each stage, the peak memory of the rank that stores most. Ranks are numbered stage by
/// stage.
std::vector<Bytes> peaks_of_stages(const PipelinePlan& plan, const Result& result) {
  std::vector<Bytes> peaks;
  std::size_t rank = 0;
  for (const PlannedStage& stage : plan.stages) {
    Bytes peak = 0;
    for (std::size_t replica = 0; replica < stage.devices.size(); ++replica)
      peak = std::max(peak, result.ranks[rank++].memory.peak_bytes);
    peaks.push_back(peak);
  }
  return peaks;
}

/// Returns a plan with one stage that has all layers and runs on all devices of `plan`. Only its weights and
/// devices are set.
PipelinePlan data_parallel(const PipelinePlan& plan) {
  PlannedStage all;
  for (const PlannedStage& stage : plan.stages) {
    all.devices.insert(all.devices.end(), stage.devices.begin(), stage.devices.end());
    all.weights += stage.weights;
  }
  return {.period_ns = 0, .stages = {all}};
}

// --- the front ------------------------------------------------------------------------------------------

/// Returns a cluster of the given shape. It has the price and the name of `whole`, because it is a part of
/// that cluster.
template <typename Shape>
ClusterSpec part_of(ClusterSpec whole, Shape shape) {
  whole.shape = std::move(shape);
  whole.built.reset();
  return whole;
}

/// Returns clusters that are parts of a uniform cluster. They have 1, 2, 4 and so on devices; the last one is
/// the whole cluster.
std::vector<ClusterSpec> parts_of(UniformCluster shape, const ClusterSpec& whole) {
  std::vector<ClusterSpec> parts;
  const std::int32_t devices = shape.devices;
  for (shape.devices = 1; shape.devices < devices; shape.devices *= 2) parts.push_back(part_of(whole, shape));
  parts.push_back(whole);
  return parts;
}

/// Returns parts of a two-level cluster: first 1, 2 and so on devices of one server, then 1, 2 and so on
/// whole servers.
std::vector<ClusterSpec> parts_of(TwoLevelCluster shape, const ClusterSpec& whole) {
  std::vector<ClusterSpec> parts;
  const std::int32_t nodes = shape.nodes;
  const std::int32_t devices_per_node = shape.devices_per_node;
  // The device order is removed, because it may name devices that are not in the part.
  shape.device_order.clear();
  shape.nodes = 1;
  for (shape.devices_per_node = 1; shape.devices_per_node < devices_per_node; ++shape.devices_per_node)
    parts.push_back(part_of(whole, shape));
  for (; shape.nodes <= nodes; ++shape.nodes) parts.push_back(part_of(whole, shape));
  return parts;
}

/// Returns only the whole cluster, because a cluster file does not say which links a part of it has.
std::vector<ClusterSpec> parts_of(const Cluster& /*cluster*/, const ClusterSpec& whole) { return {whole}; }

/// Returns true if `a` is at least as good as `b` in rate, memory and cost. It compares device-hours instead
/// of cost, because all plans have the same price for a device-hour.
bool is_no_worse(const PlanEvaluation& a, const PlanEvaluation& b) {
  return a.samples_per_second() >= b.samples_per_second() && a.peak_bytes() <= b.peak_bytes() &&
         a.device_hours_per_million_samples() <= b.device_hours_per_million_samples();
}

/// Returns the plans to which no other plan is superior. Of several equal plans, returns the first one.
std::vector<PlanEvaluation> without_worse(const std::vector<PlanEvaluation>& plans) {
  std::vector<PlanEvaluation> front;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    bool stays = true;
    for (std::size_t j = 0; stays && j < plans.size(); ++j) {
      const bool is_beaten = j != i && is_no_worse(plans[j], plans[i]);
      stays = !is_beaten || (j > i && is_no_worse(plans[i], plans[j]));
    }
    if (stays) front.push_back(plans[i]);
  }
  return front;
}

}  // namespace

std::int32_t PlanEvaluation::devices() const {
  std::int32_t devices = 0;
  for (const PlannedStage& stage : planned.plan.stages)
    devices += static_cast<std::int32_t>(stage.devices.size());
  return devices;
}

std::int32_t PlanEvaluation::devices_per_rank() const { return planned.scenario.cluster.devices_per_rank; }

double PlanEvaluation::samples_per_second() const {
  return static_cast<double>(planned.minibatch_size) * 1e9 / simulated_period_ns;
}

Bytes PlanEvaluation::peak_bytes() const {
  return stage_peaks.empty() ? 0 : *std::ranges::max_element(stage_peaks);
}

double PlanEvaluation::device_hours_per_million_samples() const {
  return devices() * devices_per_rank() * 1e6 / samples_per_second() / 3600;
}

std::optional<double> PlanEvaluation::cost_per_million_samples() const {
  const std::optional<double> price = planned.scenario.cluster.price_per_device_hour;
  if (!price) return std::nullopt;
  // The price is that of all devices of a rank together, and the hours count each device. So the product is
  // divided by the number of devices of a rank.
  return *price * device_hours_per_million_samples() / devices_per_rank();
}

std::string PlanEvaluation::configuration() const {
  std::vector<std::size_t> replicas;
  replicas.reserve(planned.plan.stages.size());
  for (const PlannedStage& stage : planned.plan.stages) replicas.push_back(stage.devices.size());
  return fmt::format("{}", fmt::join(replicas, "-"));
}

tl::expected<PlanEvaluation, std::string> evaluate_plan(const Scenario& scenario,
                                                        const PlanOptions& options) {
  auto planned = plan_scenario(scenario, options);
  if (!planned) return tl::unexpected(planned.error());
  return evaluate_plan(*std::move(planned));
}

tl::expected<PlanEvaluation, std::string> evaluate_plan(PlannedScenario planned) {
  const auto samples = static_cast<double>(planned.minibatch_size);
  auto result =
      simulate_scenario(planned.scenario, {.memory = {.samples = false}, .timeline = TimelineKept::none});
  if (!result) return tl::unexpected(result.error().message);
  PlanEvaluation evaluation;
  evaluation.planned = std::move(planned);
  const PipelinePlan& plan = evaluation.planned.plan;
  // A stream that takes no time has no rate. Its simulated period then remains 0.
  if (const auto rate = result->throughput.steady_samples_per_second)
    evaluation.simulated_period_ns = samples * 1e9 / *rate;
  evaluation.stage_peaks = peaks_of_stages(plan, *result);
  evaluation.out_of_memory = any_out_of_memory(*result);
  evaluation.notes = std::move(result->notes);
  const std::int32_t reduced = evaluation.planned.microbatches;
  evaluation.bytes_per_sample = bytes_per_minibatch(plan, reduced) / samples;
  evaluation.data_parallel_bytes_per_sample = bytes_per_minibatch(data_parallel(plan), reduced) / samples;
  return evaluation;
}

std::vector<PlanEvaluation> plan_front(const Scenario& scenario, const PlanOptions& options,
                                       PlanRanking ranking, const std::optional<PlanEvaluation>& known) {
  const std::vector<ClusterSpec> parts = std::visit(
      [&](const auto& shape) { return parts_of(shape, scenario.cluster); }, scenario.cluster.shape);
  std::vector<PlanEvaluation> plans;
  if (known && !known->out_of_memory) plans.push_back(*known);
  for (const ClusterSpec& part : parts) {
    // Straight pipelines are compared as well, because a slower plan may need less memory or cost less.
    for (const PlanForm form : {options.form, PlanForm::straight}) {
      Scenario on_part = scenario;
      on_part.cluster = part;
      PlanOptions as_form = options;
      as_form.form = form;
      auto planned = plan_by(ranking, on_part, as_form);
      // A part of the cluster that is too small for the model has no plan. This is not an error, because
      // larger parts have plans.
      if (!planned) continue;
      auto plan = evaluate_plan(*std::move(planned));
      if (plan && !plan->out_of_memory) plans.push_back(*std::move(plan));
    }
  }
  std::vector<PlanEvaluation> front = without_worse(plans);
  std::ranges::stable_sort(front, [](const PlanEvaluation& a, const PlanEvaluation& b) {
    return std::tuple(a.devices(), a.simulated_period_ns) < std::tuple(b.devices(), b.simulated_period_ns);
  });
  return front;
}

// Measures the loss that a noisy profile causes. All trials plan in parallel. Then each different plan is
// simulated once, even if several trials have found it:
//
//     profile --noise of level, trial--> disturbed profile --> plan --with_times_of(true profile)--> periods
//
//     regret = period of the trial's plan / period of the plan from the true profile - 1
//
// Tests: tests/sim/plan_evaluation_test.cpp.

namespace {

/// Returns the time with noise added. The random number depends only on `key` and `what`, so it is the same
/// at every level of noise.
Ns disturbed(Ns time, double noise, std::uint64_t key, std::uint64_t what) {
  return std::llround(static_cast<double>(time) * (1 + noise * (2 * even_draw(key, what) - 1)));
}

/// Returns the scenario with noise in the measured times of its layers, as another measurement might give
/// them.
Scenario disturbed(Scenario scenario, double noise, std::uint64_t seed, std::uint64_t trial) {
  // A random number depends only on the seed, the trial, and the position of the time in the profile. It does
  // not depend on threads.
  const std::uint64_t key = mixed(seed ^ mixed(trial));
  std::uint64_t what = 0;
  for (Layer& layer : std::get<LayerGraph>(scenario.model).layers) {
    layer.forward_ns = disturbed(layer.forward_ns, noise, key, what++);
    layer.backward_ns = disturbed(layer.backward_ns, noise, key, what++);
  }
  return scenario;
}

/// All properties in which two plans for one scenario can differ: the layers and devices of each stage, the
/// gradient buckets, and the warm-ups.
struct PlanShape {
  // The layers and the devices of each stage.
  std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>> stages;
  std::vector<std::int32_t> buckets;
  std::vector<std::int32_t> warmup;

  friend auto operator<=>(const PlanShape&, const PlanShape&) = default;
};

PlanShape shape_of(const PlannedScenario& planned) {
  PlanShape shape{
      .stages = {}, .buckets = planned.scenario.shape.buckets, .warmup = planned.scenario.shape.warmup};
  shape.stages.reserve(planned.plan.stages.size());
  for (const PlannedStage& stage : planned.plan.stages)
    shape.stages.emplace_back(stage.layers, stage.devices);
  return shape;
}

using Planned = tl::expected<PlannedScenario, std::string>;

Planned planned_from_noise(const Scenario& truth, const PlanOptions& options, PlanRanking ranking,
                           const Scenario& profile) {
  auto planned = plan_by(ranking, profile, options);
  if (!planned) return planned;
  // The plan was chosen by the noisy profile, but its period is computed with the true times.
  return with_times_of(*std::move(planned), truth);
}

/// Returns a plan for every trial of every level of noise.
std::vector<Planned> plans_of(const Scenario& scenario, const PlanOptions& options, PlanRanking ranking,
                              const ProfileNoise& noise) {
  const auto trials = static_cast<std::size_t>(noise.trials);
  std::vector<Planned> plans(noise.levels.size() * trials);
  parallel_loop(plans.size(), [&](std::size_t i) {
    plans[i] = planned_from_noise(scenario, options, ranking,
                                  disturbed(scenario, noise.levels[i / trials], noise.seed, i % trials));
  });
  return plans;
}

using PlanPeriods = std::map<PlanShape, double>;

/// Returns the simulated period of each plan. Equal plans are simulated once.
tl::expected<PlanPeriods, std::string> simulated_periods(const std::vector<Planned>& plans) {
  // All plans have the times of the true profile now, so plans with the same shape are equal.
  std::map<PlanShape, std::size_t> first_of;
  for (std::size_t i = 0; i < plans.size(); ++i) first_of.try_emplace(shape_of(*plans[i]), i);
  const std::vector<std::pair<PlanShape, std::size_t>> different(first_of.begin(), first_of.end());
  std::vector<tl::expected<PlanEvaluation, std::string>> evaluations(different.size());
  parallel_loop(different.size(),
                [&](std::size_t i) { evaluations[i] = evaluate_plan(*plans[different[i].second]); });
  PlanPeriods periods;
  for (std::size_t i = 0; i < different.size(); ++i) {
    if (!evaluations[i]) return tl::unexpected(std::move(evaluations[i].error()));
    periods[different[i].first] = evaluations[i]->simulated_period_ns;
  }
  return periods;
}

/// Returns the regret of the periods: the fraction by which their median and the worst of them exceed
/// `best`. `best` is the period of the plan from the profile without noise.
Regret regret_of(std::vector<double> periods, double best) {
  std::ranges::sort(periods);
  const std::size_t middle = periods.size() / 2;
  const double median =
      periods.size() % 2 == 1 ? periods[middle] : (periods[middle - 1] + periods[middle]) / 2;
  return {.median = median / best - 1, .worst = periods.back() / best - 1};
}

/// Returns the results of all trials at one level of noise. `truth` is the plan from the profile without
/// noise.
RegretRow row_of(std::span<const Planned> trials, const PlannedScenario& truth,
                 const PlanPeriods& simulated) {
  const PlanShape best = shape_of(truth);
  RegretRow row;
  std::vector<double> recurrence_periods;
  std::vector<double> simulated_periods;
  for (const Planned& planned : trials) {
    const PlanShape shape = shape_of(*planned);
    row.other_plans += shape != best ? 1 : 0;
    recurrence_periods.push_back(planned->plan.period_ns);
    simulated_periods.push_back(simulated.at(shape));
  }
  row.recurrence = regret_of(std::move(recurrence_periods), truth.plan.period_ns);
  row.simulated = regret_of(std::move(simulated_periods), simulated.at(best));
  return row;
}

}  // namespace

tl::expected<std::vector<RegretRow>, std::string> plan_regret(const Scenario& scenario,
                                                              const PlanOptions& options,
                                                              const ProfileNoise& noise,
                                                              PlanRanking ranking) {
  auto truth = plan_by(ranking, scenario, options);
  // The times of the true plan are set by the same function as those of the trials. Equal plans then have
  // exactly the same period.
  if (truth) truth = with_times_of(*std::move(truth), scenario);
  if (!truth) return tl::unexpected(truth.error());
  if (truth->plan.period_ns <= 0)
    return tl::unexpected(std::string("the plan takes no time, so that none can take longer"));
  std::vector<Planned> plans = plans_of(scenario, options, ranking, noise);
  for (const Planned& plan : plans) {
    if (!plan) return tl::unexpected(plan.error());
  }
  // The true plan is simulated together with the others. It is the last element, so that the trials of each
  // level remain at their positions.
  plans.push_back(*truth);
  const auto periods = simulated_periods(plans);
  if (!periods) return tl::unexpected(periods.error());
  const auto trials = static_cast<std::size_t>(noise.trials);
  std::vector<RegretRow> rows;
  for (std::size_t level = 0; level < noise.levels.size(); ++level) {
    rows.push_back(row_of(std::span(plans).subspan(level * trials, trials), *truth, *periods));
    rows.back().noise = noise.levels[level];
  }
  return rows;
}

}  // namespace penstock
