// PipeDream (SOSP'19) on the four workers of one server of cluster A. Figure 14 has one minibatch in flight,
// like model parallelism and FlexFlow's hybrids; figure 16 shows memory, and figure 18 the depth.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/published/reproduce_cluster_runs.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

using Figures = std::vector<ReproducedFigure>;

constexpr std::int32_t kServerWorkers = 4;
const CutPipeline kVggOnFour{.cuts = {33}, .replicas = {3, 1}};
const CutPipeline kAlexNetOnFour{.cuts = {13}, .replicas = {3, 1}};
const CutPipeline kGnmtOnFour{.cuts = {}, .replicas = {1, 1, 1, 1}};

/// A model with the repository's configuration for four workers.
struct ServerRow {
  Training training;
  CutPipeline pipeline;
};

std::vector<ServerRow> released_rows() {
  return {{kVgg16, kVggOnFour}, {kAlexNet, kAlexNetOnFour}, {kGnmt8, kGnmtOnFour}};
}

/// Returns the warm-up of each stage of a straight pipeline: the forwards before its first backward. The
/// first stage has depth - 1, the last has 0, and the others lie evenly between. Depth 4 on 4 stages gives 3
/// 2 1 0, and depth 7 gives 6 4 2 0.
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

/// Adds throughput and memory for each depth. Neither may be below that of the depth before.
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
    // If links are shared, rates are means over rounds, which are accurate only to about 1e-4.
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
  // Four servers with one worker each, so that all messages cross the slow network.
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
    // Without a forward before the first backward, only one minibatch is in flight.
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
