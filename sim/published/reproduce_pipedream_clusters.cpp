// Reproduces PipeDream (SOSP'19), section 5.2: four models on 16 workers of its clusters A and B. Each
// model is trained by data parallelism, by the planned pipeline with replicas, and by the straight
// pipeline, which has no replicas.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/partition/partition.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/published/reproduce.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

using Figures = std::vector<ReproducedFigure>;

constexpr std::int32_t kClusterWorkers = 16;
constexpr std::int32_t kVggConvolutions = 33;  // number of layers before the first fully connected layer
// The number of layers before the first fully connected layer of AlexNet, including its View and Dropout
// layers.
constexpr std::int32_t kAlexNetConvolutions = 13;
constexpr double kWorkerGiB = 16;

/// Adds the figures of a run. The paper does not print them, so they are only shown.
void add_run(Figures& figures, const std::string& what, const ClusterRun& run) {
  figures.push_back(shown(what + ": samples/s", run.samples_per_second));
  figures.push_back(shown(what + ": MB a sample", run.megabytes_a_sample));
  figures.push_back(noted(shown(what + ": GiB of the fullest worker", run.fullest_gib()),
                          run.fullest_gib() > kWorkerGiB ? "more than the 16 that it has" : ""));
}

/// The results of training one model on 16 workers by data parallelism, by the planned pipeline and by the
/// straight pipeline.
struct ThreeWays {
  Scenario scenario;
  ClusterRun data_parallel;
  ClusterRun planned;
  ClusterRun straight;
};

/// Predicts the three trainings: with data parallelism, with the planned pipeline and with the straight
/// pipeline. Adds their figures to `figures`.
ThreeWays add_ways(Figures& figures, const Training& training, const ClusterSpec& cluster,
                   const PlanOptions& options) {
  const Scenario scenario = training_scenario(training, cluster);
  PlanOptions straight = options;
  straight.form = PlanForm::straight;
  ThreeWays ways{.scenario = scenario,
                 .data_parallel = data_parallel_run(scenario, kClusterWorkers),
                 .planned = planned_run(scenario, options),
                 .straight = planned_run(scenario, straight)};
  const std::string title = training.title;
  add_run(figures, title + ", data parallel on 16", ways.data_parallel);
  figures.push_back(noted(
      no_less(title + ", data parallel: buckets beside the backward pass over all at its end, samples/s",
              ways.data_parallel.samples_per_second /
                  data_parallel_run(scenario, kClusterWorkers, Reduction::at_end).samples_per_second),
      "as Horovod and DDP do it"));
  add_run(figures, fmt::format("{}, planned {}", title, ways.planned.configuration), ways.planned);
  add_run(figures, fmt::format("{}, straight on {}", title, ways.straight.stages_gib.size()), ways.straight);
  return ways;
}

/// Adds three claims of the paper. The pipeline is faster than data parallelism, sends fewer bytes, and
/// needs about as much memory.
void add_victory(Figures& figures, const std::string& what, const ClusterRun& pipeline,
                 const ClusterRun& data_parallel) {
  figures.push_back(no_less(what + " over data parallelism: samples/s",
                            pipeline.samples_per_second / data_parallel.samples_per_second));
  figures.push_back(no_more(what + " over data parallelism: bytes a sample",
                            pipeline.megabytes_a_sample / data_parallel.megabytes_a_sample));
  figures.push_back(noted(no_more(what + " over data parallelism: memory of the fullest worker, on a par",
                                  pipeline.fullest_gib() / data_parallel.fullest_gib(), kOnAPar),
                          "no number is printed; the bound, 1.75, is ours"));
}

/// Adds figures that show why the plan that PipeDream's dynamic programme finds is slower than the released
/// plan. The replicas of a stage reduce their gradients together, so they also send their messages at the
/// same time. With NOAM minibatches in flight (the number in the paper), the replicas wait for these
/// messages. One more minibatch in flight hides a part of the wait.
void add_lock_step(Figures& figures, const Training& training, const ThreeWays& ways) {
  const ClusterRun deeper = deeper_planned_run(ways.scenario, {}, 1);
  const std::string what = fmt::format("{}, planned {} over data parallelism: samples/s", training.title,
                                       ways.planned.configuration);
  figures.push_back(
      noted(shown(what, ways.planned.samples_per_second / ways.data_parallel.samples_per_second),
            "replicas reduce, send and wait together; NOAM does not hide that "
            "between servers"));
  figures.push_back(noted(shown(what + ", one minibatch more in flight",
                                deeper.samples_per_second / ways.data_parallel.samples_per_second),
                          fmt::format("{:.1f} GiB on the fullest worker", deeper.fullest_gib())));
}

/// Adds the configuration in PipeDream's repository for 16 workers: the convolutions on 15 workers, and the
/// fully connected layers on one.
void add_released(Figures& figures, const Training& training, const ClusterSpec& cluster,
                  std::int32_t convolutions) {
  const ThreeWays ways = add_ways(figures, training, cluster, {});
  const ClusterRun released = pipeline_run(ways.scenario, {.cuts = {convolutions}, .replicas = {15, 1}});
  const std::string what = std::string(training.title) + ", released 15-1";
  add_run(figures, what, released);
  add_victory(figures, what, released, ways.data_parallel);
  add_lock_step(figures, training, ways);
}

/// Returns options without a memory limit. With a limit, PipeDream's planner would find no plan for
/// ResNet-50, because it counts the output of every layer as memory.
PlanOptions without_limit() { return {.memory_limit = std::numeric_limits<Bytes>::max()}; }

/// Adds the paper's claim for ResNet-50: data parallelism is best on both clusters.
ThreeWays add_resnet(Figures& figures, const ClusterSpec& cluster) {
  ThreeWays ways = add_ways(figures, kResNet50, cluster, without_limit());
  figures.push_back(no_less("ResNet-50, data parallelism over the planned pipeline: samples/s",
                            ways.data_parallel.samples_per_second / ways.planned.samples_per_second));
  figures.push_back(no_less("ResNet-50, data parallelism over the straight pipeline: samples/s",
                            ways.data_parallel.samples_per_second / ways.straight.samples_per_second));
  return ways;
}

double stages_of(const ClusterRun& run) { return static_cast<double>(run.stages_gib.size()); }

}  // namespace

std::vector<ReproducedFigure> reproduce_pipedream_cluster_a() {
  const ClusterSpec cluster = pipedream_cluster("pipedream-a", 4);
  Figures figures;
  add_released(figures, kVgg16, cluster, kVggConvolutions);
  add_released(figures, kAlexNet, cluster, kAlexNetConvolutions);
  const ThreeWays resnet = add_resnet(figures, cluster);
  figures.push_back(
      noted(equal(Tolerance::exact, "ResNet-50: stages of the plan", 1, stages_of(resnet.planned)),
            "data parallelism is what the recurrence plans"));
  const ThreeWays gnmt = add_ways(figures, kGnmt8, cluster, {});
  add_victory(figures, "GNMT-8, straight", gnmt.straight, gnmt.data_parallel);
  add_victory(figures, "GNMT-8, planned " + gnmt.planned.configuration, gnmt.planned, gnmt.data_parallel);
  return figures;
}

std::vector<ReproducedFigure> reproduce_pipedream_cluster_b() {
  const ClusterSpec cluster = pipedream_cluster("pipedream-b", 2);
  Figures figures;
  add_released(figures, kVgg16, cluster, kVggConvolutions);
  add_released(figures, kAlexNet, cluster, kAlexNetConvolutions);
  const ThreeWays resnet = add_resnet(figures, cluster);
  figures.push_back(
      noted(equal(Tolerance::exact, "ResNet-50: stages of the plan", 1, stages_of(resnet.planned)),
            "data parallelism is what the recurrence plans"));
  const ThreeWays gnmt = add_ways(figures, kGnmt8, cluster, {});
  figures.push_back(noted(shown("GNMT-8, straight over data parallelism: samples/s",
                                gnmt.straight.samples_per_second / gnmt.data_parallel.samples_per_second),
                          "the repository has no configuration of GNMT-8 for this cluster"));
  figures.push_back(shown("GNMT-8, planned over data parallelism: samples/s",
                          gnmt.planned.samples_per_second / gnmt.data_parallel.samples_per_second));
  return figures;
}

// PipeDream (SOSP'19) on the four workers of one server of cluster A. Figure 14 compares with a single
// minibatch in flight, as in model parallelism and in FlexFlow's hybrids. Figure 16 shows memory, and figure
// 18 shows the effect of the depth.

namespace {

using Figures = std::vector<ReproducedFigure>;

constexpr std::int32_t kServerWorkers = 4;
const CutPipeline kVggOnFour{.cuts = {33}, .replicas = {3, 1}};
const CutPipeline kAlexNetOnFour{.cuts = {13}, .replicas = {3, 1}};
const CutPipeline kGnmtOnFour{.cuts = {}, .replicas = {1, 1, 1, 1}};

/// A model, and the configuration for four workers in PipeDream's repository.
struct ServerRow {
  Training training;
  CutPipeline pipeline;
};

std::vector<ServerRow> released_rows() {
  return {{kVgg16, kVggOnFour}, {kAlexNet, kAlexNetOnFour}, {kGnmt8, kGnmtOnFour}};
}

/// Returns, for each stage of a straight pipeline, the number of warm-up forward passes. It is depth - 1
/// for the first stage and 0 for the last one, and decreases evenly between them. With 4 stages, depth 4
/// gives 3 2 1 0, and depth 7 gives 6 4 2 0.
std::vector<std::int32_t> warmup_of_depth(std::int32_t depth, std::int32_t stages) {
  std::vector<std::int32_t> warmup;
  warmup.reserve(static_cast<std::size_t>(stages));
  for (std::int32_t stage = 0; stage < stages; ++stage)
    warmup.push_back((depth - 1) * (stages - 1 - stage) / (stages - 1));
  return warmup;
}

ClusterRun gnmt_at_depth(const ClusterSpec& cluster, std::int32_t depth) {
  CutPipeline pipeline = kGnmtOnFour;
  pipeline.warmup = warmup_of_depth(depth, kServerWorkers);
  return pipeline_run(training_scenario(kGnmt8, cluster), pipeline);
}

/// Adds the throughput and the memory for each depth, which is the number of minibatches in flight. Both must
/// be at least as large as for the depth before.
void add_depths(Figures& figures, const std::string& where, const ClusterSpec& cluster) {
  constexpr std::int32_t kNoam = 4;
  constexpr std::int32_t kDeepest = 8;
  std::vector<ClusterRun> runs;
  for (std::int32_t depth = 1; depth <= kDeepest; ++depth) {
    runs.push_back(gnmt_at_depth(cluster, depth));
    const std::string what = fmt::format("{}, depth {}", where, depth);
    figures.push_back(shown(what + ": samples/s", runs.back().samples_per_second));
    figures.push_back(shown(what + ": GiB of the fullest worker", runs.back().fullest_gib()));
    if (depth == 1) continue;
    const ClusterRun& before = runs[runs.size() - 2];
    // If links are shared, rates are means over rounds, with a relative accuracy of about 1e-4.
    const double gain = runs.back().samples_per_second / before.samples_per_second;
    figures.push_back(no_less(what + " over the depth before: samples/s", std::round(gain * 1e4) / 1e4));
    figures.push_back(
        no_less(what + " over the depth before: memory", runs.back().fullest_gib() / before.fullest_gib()));
  }
  const double gain = runs[kNoam - 1].samples_per_second / runs[0].samples_per_second;
  figures.push_back(no_less(where + ", NOAM = 4 over depth 1: samples/s", gain));
  figures.push_back(shown(where + ", depth 8 over NOAM = 4: samples/s",
                          runs[kDeepest - 1].samples_per_second / runs[kNoam - 1].samples_per_second));
}

}  // namespace

std::vector<ReproducedFigure> reproduce_pipedream_server() {
  Figures figures;
  for (const ServerRow& row : released_rows()) {
    const Scenario scenario = training_scenario(row.training, pipedream_cluster("pipedream-a", 1));
    const ClusterRun data_parallel = data_parallel_run(scenario, kServerWorkers);
    const ClusterRun pipeline = pipeline_run(scenario, row.pipeline);
    const std::string title = row.training.title;
    const std::string what = fmt::format("{}, {}", title, pipeline.configuration);
    figures.push_back(shown(title + ", data parallel: samples/s", data_parallel.samples_per_second));
    figures.push_back(shown(what + ": samples/s", pipeline.samples_per_second));
    const double gain = pipeline.samples_per_second / data_parallel.samples_per_second;
    const bool is_straight = row.pipeline.cuts.empty();
    figures.push_back(
        is_straight ? no_less(what + " over data parallelism: samples/s", gain)
                    : noted(shown(what + " over data parallelism: samples/s", gain),
                            "PCIe of 12 GB/s that nobody shares hides the reduction, and 3 workers do the "
                            "convolutions of 4"));
    figures.push_back(no_more(what + " over data parallelism: bytes a sample",
                              pipeline.megabytes_a_sample / data_parallel.megabytes_a_sample));
  }
  return figures;
}

std::vector<ReproducedFigure> reproduce_pipedream_memory() {
  Figures figures;
  for (const ServerRow& row : released_rows()) {
    const Scenario scenario = training_scenario(row.training, pipedream_cluster("pipedream-a", 1));
    const ClusterRun data_parallel = data_parallel_run(scenario, kServerWorkers);
    const ClusterRun pipeline = pipeline_run(scenario, row.pipeline);
    const std::string what = fmt::format("{}, {}", row.training.title, pipeline.configuration);
    figures.push_back(shown(fmt::format("{}, data parallel: GiB a worker", row.training.title),
                            data_parallel.fullest_gib()));
    double sum = 0;
    for (std::size_t stage = 0; stage < pipeline.stages_gib.size(); ++stage) {
      figures.push_back(
          shown(fmt::format("{}, stage {}: GiB a worker", what, stage), pipeline.stages_gib[stage]));
      sum += pipeline.stages_gib[stage] * row.pipeline.replicas[stage];
    }
    figures.push_back(noted(no_more(what + ": fullest worker over data parallelism's, on a par",
                                    pipeline.fullest_gib() / data_parallel.fullest_gib(), kOnAPar),
                            "the paper says no number; the bound, 1.75, is ours"));
    figures.push_back(shown(what + ": mean worker over data parallelism's",
                            sum / kServerWorkers / data_parallel.fullest_gib()));
  }
  return figures;
}

std::vector<ReproducedFigure> reproduce_pipedream_in_flight() {
  Figures figures;
  add_depths(figures, "PCIe", pipedream_cluster("pipedream-a", 1));
  // The second cluster has four servers with one worker each, so all messages cross the slow network.
  ClusterSpec ethernet = pipedream_cluster("pipedream-a", kServerWorkers);
  std::get<TwoLevelCluster>(ethernet.shape).devices_per_node = 1;
  add_depths(figures, "10 Gb/s", ethernet);
  return figures;
}

std::vector<ReproducedFigure> reproduce_flexflow() {
  Figures figures;
  for (const ServerRow& row : released_rows()) {
    const Scenario scenario = training_scenario(row.training, pipedream_cluster("pipedream-a", 1));
    CutPipeline one_in_flight = row.pipeline;
    // Without warm-up forwards, only one minibatch is in flight.
    one_in_flight.warmup.assign(row.pipeline.replicas.size(), 0);
    const ClusterRun pipeline = pipeline_run(scenario, row.pipeline);
    const double gain =
        pipeline.samples_per_second / pipeline_run(scenario, one_in_flight).samples_per_second;
    const std::string what = fmt::format("{}, {}: pipelined over one minibatch in flight, samples/s",
                                         row.training.title, pipeline.configuration);
    figures.push_back(no_less(what, gain));
    if (std::string(row.training.model) == "alexnet") {
      constexpr double kPublished = 1.9;
      figures.push_back(missed(Tolerance::ratio, what + ", printed", kPublished, gain,
                               "its hybrid is FlexFlow's own, which is not released"));
    }
  }
  return figures;
}

}  // namespace penstock
