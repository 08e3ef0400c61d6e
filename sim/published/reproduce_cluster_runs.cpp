// Training on PipeDream's clusters, in two forms. Data parallelism reduces its gradients in buckets during
// the backward pass. A pipeline runs the plan of PipeDream's partitioner as a stream of 1F1B-RR. Rates are
// steady rates, and memory is that of the fullest replica of each stage.

#include "sim/published/reproduce_cluster_runs.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/result/result.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/planning/plan_evaluation.hpp"
#include "sim/published/library_models.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/presets.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

constexpr std::int32_t kGradientBuckets =
    8;  // buckets of a stage's gradients, as in PyTorch's DistributedDataParallel
constexpr std::int64_t kStreamedMinibatches = 120;  // divisible by 1 to 6, 8, 10, 12 and 15 replicas

double gib(Bytes bytes) { return static_cast<double>(bytes) / kBytesPerGibibyte; }

Prediction prediction_of(const Scenario& scenario) {
  auto prediction = predict(scenario, {.memory = {.samples = false}, .timeline = TimelineKept::none});
  if (!prediction) throw std::logic_error(prediction.error().message);
  return *std::move(prediction);
}

/// Returns the steady rate, or the rate of the run if its stream shows no period.
double steady_samples_per_second(const Prediction& prediction) {
  if (prediction.stream && prediction.stream->samples_per_second)
    return *prediction.stream->samples_per_second;
  return prediction.result.throughput.samples_per_second;
}

/// Returns the megabytes that all ranks send for one sample. The filling and draining of the pipeline do not
/// matter, because each minibatch sends the same bytes.
double megabytes_a_sample(const Result& result) {
  double sent = 0;
  for (const RankReport& rank : result.ranks) sent += static_cast<double>(rank.sent_bytes);
  return sent / result.throughput.samples / 1e6;
}

/// Returns the steady state of a 1F1B-RR scenario.
ClusterRun stream_of(const Scenario& scenario) {
  const std::vector<std::int32_t>& replicas = scenario.shape.replicas;
  const Prediction prediction = prediction_of(scenario);
  ClusterRun run{.configuration = fmt::format("{}", fmt::join(replicas, "-")),
                 .samples_per_second = steady_samples_per_second(prediction),
                 .megabytes_a_sample = megabytes_a_sample(prediction.result),
                 .stages_gib = {}};
  std::size_t rank = 0;
  for (const std::int32_t count : replicas) {
    // Ranks are numbered stage by stage, and the replicas of a stage are consecutive.
    Bytes peak = 0;
    for (std::int32_t replica = 0; replica < count; ++replica)
      peak = std::max(peak, prediction.result.ranks.at(rank++).memory.peak_bytes);
    run.stages_gib.push_back(gib(peak));
  }
  return run;
}

}  // namespace

Scenario training_scenario(const Training& training, const ClusterSpec& cluster) {
  LibraryModel model = library_model(training.model);
  Scenario scenario;
  scenario.model = std::move(model.graph);
  scenario.cluster = cluster;
  scenario.batch.own_micro_batch_size = model.batch;
  scenario.batch.micro_batch_size = training.samples;
  scenario.optimizer = training.optimizer;
  scenario.shape.buckets = {kGradientBuckets};  // for the stages of any plan
  return scenario;
}

ClusterSpec pipedream_cluster(const std::string& preset, std::int32_t servers) {
  TwoLevelCluster shape = find_preset(preset)->shape;
  shape.nodes = servers;
  return {.shape = shape, .name = preset};
}

double ClusterRun::fullest_gib() const { return std::ranges::max(stages_gib); }

ClusterRun data_parallel_run(const Scenario& training, std::int32_t devices, Reduction reduction) {
  Scenario scenario = training;
  scenario.schedule = "data-parallel";
  scenario.shape = {.stages = 1, .buckets = {kGradientBuckets}};
  scenario.shape.replicas = {devices};
  scenario.shape.reduction = reduction;
  // One microbatch for each replica. A minibatch is one step of all replicas.
  scenario.batch.microbatches = devices;
  // One stage with all layers.
  scenario.partition = {.rule = Partition::Rule::balanced};
  const Result result = prediction_of(scenario).result;
  return {.configuration = std::to_string(devices),
          .samples_per_second = result.throughput.samples_per_second,
          .megabytes_a_sample = megabytes_a_sample(result),
          .stages_gib = {gib(highest_peak_bytes(result))}};
}

ClusterRun pipeline_run(const Scenario& training, const CutPipeline& pipeline) {
  Scenario scenario = training;
  scenario.schedule = "1f1b-rr";
  scenario.shape = {.stages = static_cast<std::int32_t>(pipeline.replicas.size()),
                    .replicas = pipeline.replicas,
                    .warmup = pipeline.warmup,
                    .routing = Routing::global,
                    .buckets = {kGradientBuckets}};
  scenario.batch.microbatches = kStreamedMinibatches;
  scenario.partition = {.rule = pipeline.cuts.empty() ? Partition::Rule::balanced : Partition::Rule::cuts,
                        .cuts = pipeline.cuts};
  return stream_of(scenario);
}

ClusterRun planned_run(const Scenario& training, const PlanOptions& options) {
  const auto plan = evaluate_plan(training, options);
  if (!plan) throw std::logic_error(plan.error());
  ClusterRun run{.configuration = plan->configuration(),
                 .samples_per_second = plan->samples_per_second(),
                 .megabytes_a_sample = plan->bytes_per_sample / 1e6,
                 .stages_gib = {}};
  for (const Bytes peak : plan->stage_peaks) run.stages_gib.push_back(gib(peak));
  return run;
}

ClusterRun deeper_planned_run(const Scenario& training, const PlanOptions& options, std::int32_t more) {
  auto planned = plan_scenario(training, options);
  if (!planned) throw std::logic_error(planned.error());
  for (const PlannedStage& stage : planned->plan.stages)
    planned->scenario.shape.warmup.push_back(stage.in_flight - 1 + more);
  return stream_of(planned->scenario);
}

}  // namespace penstock
