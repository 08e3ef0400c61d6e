// Simulates a plan. A recurrence ignores many effects: filling, memory over time, shared links. This file
// runs the recurrence's plan, or a plan that a search found. The period is the steady period that `simulate`
// prints for the same scenario. plan_search.cpp finds plans. Tests: tests/sim/plan_evaluation_test.cpp.

#include "sim/planning/plan_evaluation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/planning/plan_search.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

// --- one plan -------------------------------------------------------------------------------------------

/// Returns the peak of the fullest rank of each stage. Ranks are numbered stage by stage.
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

/// Returns a plan with one stage of all layers on the plan's devices. Only its weights and devices are filled
/// in.
PipelinePlan data_parallel(const PipelinePlan& plan) {
  PlannedStage all;
  for (const PlannedStage& stage : plan.stages) {
    all.devices.insert(all.devices.end(), stage.devices.begin(), stage.devices.end());
    all.weights += stage.weights;
  }
  return {.period_ns = 0, .stages = {all}};
}

// --- the front ------------------------------------------------------------------------------------------

/// Returns a smaller cluster with the same price and name.
template <typename Shape>
ClusterSpec part_of(ClusterSpec whole, Shape shape) {
  whole.shape = std::move(shape);
  whole.built.reset();
  return whole;
}

/// Returns clusters of 1, 2, 4 and so on devices, and of all devices. The number of all devices need not be a
/// power of two.
std::vector<ClusterSpec> parts_of(UniformCluster shape, const ClusterSpec& whole) {
  std::vector<ClusterSpec> parts;
  const std::int32_t devices = shape.devices;
  for (shape.devices = 1; shape.devices < devices; shape.devices *= 2) parts.push_back(part_of(whole, shape));
  parts.push_back(whole);
  return parts;
}

/// Returns clusters of 1, 2 and so on devices of one server, then of 1, 2 and so on whole servers.
std::vector<ClusterSpec> parts_of(TwoLevelCluster shape, const ClusterSpec& whole) {
  std::vector<ClusterSpec> parts;
  const std::int32_t nodes = shape.nodes;
  const std::int32_t devices_per_node = shape.devices_per_node;
  // The device order would name devices that are not in this part.
  shape.device_order.clear();
  shape.nodes = 1;
  // Parts of one node first, then whole nodes.
  for (shape.devices_per_node = 1; shape.devices_per_node < devices_per_node; ++shape.devices_per_node)
    parts.push_back(part_of(whole, shape));
  for (; shape.nodes <= nodes; ++shape.nodes) parts.push_back(part_of(whole, shape));
  return parts;
}

/// Returns only the whole cluster, because the file does not define the links of a part.
std::vector<ClusterSpec> parts_of(const Cluster& /*cluster*/, const ClusterSpec& whole) { return {whole}; }

/// Returns whether `a` is at least as good in rate, memory and cost. Device-hours are compared instead of
/// cost, because all plans have the same price per device-hour.
bool is_no_worse(const PlanEvaluation& a, const PlanEvaluation& b) {
  return a.samples_per_second() >= b.samples_per_second() && a.peak_bytes() <= b.peak_bytes() &&
         a.device_hours_per_million_samples() <= b.device_hours_per_million_samples();
}

/// Returns the plans that no other plan beats. Of equal plans the first one stays.
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
  // The price is for all devices of a rank together, but the hours are counted for each device.
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
  // A stream that takes no time has no rate, so its period stays 0.
  if (const auto rate = result->throughput.steady_samples_per_second)
    evaluation.simulated_period_ns = samples * 1e9 / *rate;
  evaluation.stage_peaks = peaks_of_stages(plan, *result);
  evaluation.out_of_memory = any_out_of_memory(*result);
  evaluation.notes = std::move(result->notes);
  evaluation.bytes_per_sample = bytes_per_minibatch(plan) / samples;
  evaluation.data_parallel_bytes_per_sample = bytes_per_minibatch(data_parallel(plan)) / samples;
  return evaluation;
}

std::vector<PlanEvaluation> plan_front(const Scenario& scenario, const PlanOptions& options,
                                       PlanRanking ranking, const std::optional<PlanEvaluation>& known) {
  const std::vector<ClusterSpec> parts = std::visit(
      [&](const auto& shape) { return parts_of(shape, scenario.cluster); }, scenario.cluster.shape);
  std::vector<PlanEvaluation> plans;
  if (known && !known->out_of_memory) plans.push_back(*known);
  for (const ClusterSpec& part : parts) {
    // Straight pipelines compete as well, because a slower plan may need less memory or cost less.
    for (const PlanForm form : {options.form, PlanForm::straight}) {
      Scenario on_part = scenario;
      on_part.cluster = part;
      PlanOptions as_form = options;
      as_form.form = form;
      auto planned = plan_by(ranking, on_part, as_form);
      // A part that is too small for the model has no plan. This is no error, because other parts have one.
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

}  // namespace penstock
