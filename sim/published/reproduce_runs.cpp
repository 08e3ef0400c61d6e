// Contains functions that several reproductions use. Papers draw schedules in units of time. Here a unit is 1
// ms, so that fractions of a unit are whole nanoseconds. In the first group of functions, links have
// unlimited bandwidth.

#include "sim/published/reproduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/host/library_texts.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/plan_search.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

Ns unit_ns(double units) { return std::llround(units * kUnitNs); }

}  // namespace

std::vector<UnitTimes> equal_stages(std::size_t count, const UnitTimes& times) { return {count, times}; }

Result predicted_run(const std::string& schedule, const Shape& shape, const std::vector<UnitTimes>& stages,
                     double latency) {
  auto program = generate(schedule, shape);
  if (!program) throw std::logic_error(program.error());
  // The edges have no bytes, so a message takes only the latency.
  CostTable costs{.stages = {}, .edges = std::vector<EdgeCost>(stage_edges(*program).size())};
  for (const UnitTimes& stage : stages) {
    costs.stages.push_back({.forward_ns = unit_ns(stage.forward),
                            .backward_ns = unit_ns(stage.backward),
                            .recompute_ns = unit_ns(stage.recompute)});
  }
  auto result = simulate_uniform(*program, costs, unit_ns(latency), SteadyState::find);
  if (!result) throw std::logic_error(result.error());
  return *std::move(result);
}

double reduction_ms(Cluster cluster, Bytes gradients) {
  const std::int32_t replicas = cluster.device_count();
  // The computation takes no time, so the makespan is the time of the reduction alone.
  Shape shape{.stages = 1, .microbatches = replicas};
  shape.replicas = {replicas};
  auto program = generate("data-parallel", shape).and_then([](const Program& p) { return lower(p); });
  if (!program) throw std::logic_error(program.error());
  const auto result = simulate({.name = "all-reduce",
                                .program = *std::move(program),
                                .costs = {.stages = {{.gradients = gradients}}, .edges = {}},
                                .cluster = std::move(cluster),
                                .channels = {},
                                .notes = {}},
                               {.memory = {.samples = false}, .steady = SteadyState::skip});
  if (!result) throw std::logic_error(result.error().message);
  return static_cast<double>(result->makespan_ns) / 1e6;
}

double makespan_units(const Result& result) { return static_cast<double>(result.makespan_ns) / kUnitNs; }

double period_units(const Result& result) {
  const std::optional<double> rate = result.throughput.steady_samples_per_second;
  return rate ? 1e9 / kUnitNs / *rate : 0;
}

// The text of the library's profiles is part of the program, so published figures can be predicted without
// files. It is read in the same way as a file.

namespace {

/// Returns the text of a scenario whose model is the given text of a model file.
std::string as_scenario(std::string_view model) {
  // With two spaces before each line, the model's text becomes the value of the key `model`.
  std::string text = "model:\n";
  while (!model.empty()) {
    const std::size_t end = std::min(model.find('\n'), model.size());
    text.append("  ").append(model.substr(0, end)).append("\n");
    model.remove_prefix(std::min(end + 1, model.size()));
  }
  return text;
}

}  // namespace

LibraryModel library_model(std::string_view name) {
  for (const LibraryText& model : library_texts()) {
    if (model.name != name) continue;
    auto scenario = parse_scenario(as_scenario(model.text), name, std::filesystem::path(), {});
    if (!scenario) throw std::logic_error(scenario.error());
    return {.graph = std::get<LayerGraph>(std::move(scenario->model)),
            .batch = scenario->batch.own_micro_batch_size};
  }
  throw std::logic_error("no such model in the library: " + std::string(name));
}

// Predicts training on PipeDream's clusters. Data parallelism reduces its gradients in buckets during the
// backward pass. A pipeline runs a plan of PipeDream's partitioner as an endless stream of 1F1B-RR. Rates are
// steady rates, and the memory of a stage is that of its fullest replica.

namespace {

// The number of gradient buckets of a stage, as in PyTorch's DistributedDataParallel.
constexpr std::int32_t kGradientBuckets = 8;
constexpr std::int64_t kStreamedMinibatches = 120;  // divisible by 1 to 6, 8, 10, 12 and 15 replicas

double gib(Bytes bytes) { return static_cast<double>(bytes) / kBytesPerGibibyte; }

Prediction prediction_of(const Scenario& scenario) {
  auto prediction = predict(scenario, {.memory = {.samples = false}, .timeline = TimelineKept::none});
  if (!prediction) throw std::logic_error(prediction.error().message);
  return *std::move(prediction);
}

/// Returns the steady rate of the endless stream in samples per second. If the stream has no steady rate,
/// returns the rate of the run.
double steady_samples_per_second(const Prediction& prediction) {
  if (prediction.stream && prediction.stream->samples_per_second)
    return *prediction.stream->samples_per_second;
  return prediction.result.throughput.samples_per_second;
}

/// Returns the megabytes (1e6 bytes) that all ranks together send for one sample. Each minibatch sends the
/// same bytes, so the length of the run has no effect.
double megabytes_a_sample(const Result& result) {
  double sent = 0;
  for (const RankReport& rank : result.ranks) sent += static_cast<double>(rank.sent_bytes);
  return sent / samples_of_copy(result) / 1e6;
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
  scenario.shape.buckets = {kGradientBuckets};  // one list entry applies to all stages of any plan
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
  // Each replica gets one microbatch of the minibatch.
  scenario.batch.microbatches = devices;
  // There is one stage, which has all layers.
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

// Published tables of "the largest model that fits" count only weights, gradients, optimizer state and
// activations. The functions below simulate them as one training step of a model that is cut into buckets.
// The published tables thereby test the simulator's memory rules. Durations have no effect and are 1.

namespace {

/// Returns the program of one data-parallel step with one microbatch for each device. Its stages are the
/// gradient buckets.
Program program_of(const ShardedModel& model) {
  Shape shape{.stages = model.buckets, .microbatches = model.devices, .sharding = model.sharding};
  shape.replicas = {model.devices};
  auto program = generate("data-parallel", shape);
  if (!program) throw std::logic_error(program.error());
  return *std::move(program);
}

/// Returns costs with which each bucket has an equal part of all bytes. Parts are rounded down to whole
/// bytes.
CostTable costs_of(const ShardedModel& model, const Program& program) {
  const StageCost bucket{.forward_ns = 1,
                         .backward_ns = 1,
                         .kept = model.state.activations / model.buckets,
                         .weights = model.state.weights / model.buckets,
                         .gradients = model.state.gradients / model.buckets,
                         .optimizer_state = model.state.optimizer_state / model.buckets};
  return uniform_costs(program, bucket);
}

}  // namespace

Bytes peak_of_one_stage(const StageState& state) { return peak_of({.state = state}); }

Bytes peak_of(const ShardedModel& model) {
  const Program program = program_of(model);
  // The argument 0 is the latency of messages.
  const auto result = simulate_uniform(program, costs_of(model, program), 0, SteadyState::skip);
  if (!result) throw std::logic_error(result.error());
  return highest_peak_bytes(*result);
}

Bytes sent_bytes(const ShardedModel& model) {
  const Program program = program_of(model);
  const CostTable costs = costs_of(model, program);
  // All ranks send the same bytes, and the list of a rank contains all of its collectives, so one list is
  // enough.
  Bytes bytes = 0;
  for (const Action& action : program.ranks.front()) {
    if (is_collective(action.kind)) bytes += ring_bytes(program, costs, action);
  }
  return bytes;
}

}  // namespace penstock
