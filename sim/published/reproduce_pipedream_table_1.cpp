// PipeDream (SOSP'19), table 1: how many times as fast as data parallelism a pipeline ends an epoch.
// Pipelines used Gloo, data parallelism NCCL, so that no single part of the links' bandwidth can explain a
// ratio of both. What is tried, in the open:
//
//   1. both reach all of the bandwidth
//   2. NCCL reaches the part with which VGG-16 on A has its printed ratio, Gloo all
//   3. Gloo, too, reaches a part: that with which AlexNet on B has its printed ratio
//
// A row that a part was fitted on tests nothing. What comes out: NCCL's part of VGG-16 predicts AlexNet on
// the same cluster, which is tested, and neither cluster B nor a straight pipeline; with a part for Gloo the
// rows of cluster A that were right are wrong. So a part for each library does not explain the table, and all
// these rows are shown as missed, also the one that then comes near.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/read/cluster_spec.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/published/reproduce_cluster_runs.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

using Figures = std::vector<ReproducedFigure>;

/// Which model on how much of which cluster, cut how, and the printed ratio.
struct TableOneRow {
  Training training;
  const char* preset;
  std::int32_t servers;
  std::int32_t devices_per_server;
  CutPipeline pipeline;
  double printed;
};

const CutPipeline kVgg{.cuts = {33}, .replicas = {15, 1}};
const CutPipeline kAlex{.cuts = {13}, .replicas = {15, 1}};
CutPipeline straight(std::int32_t stages) {
  return {.cuts = {}, .replicas = std::vector<std::int32_t>(static_cast<std::size_t>(stages), 1)};
}

const TableOneRow kVggOnA{kVgg16, "pipedream-a", 4, 4, kVgg, 5.28};
const TableOneRow kAlexNetOnA{kAlexNet, "pipedream-a", 4, 4, kAlex, 4.92};
const TableOneRow kAlexNetOnB{kAlexNet, "pipedream-b", 2, 8, kAlex, 2.04};

std::vector<TableOneRow> rows() {
  return {kVggOnA,
          {kVgg16, "pipedream-b", 2, 8, kVgg, 2.98},
          kAlexNetOnA,
          kAlexNetOnB,
          {kGnmt8, "pipedream-a", 1, 4, straight(4), 1.5},
          {kGnmt8, "pipedream-a", 3, 4, straight(12), 2.95}};
}

/// Links of which that part is reached.
ClusterSpec cluster_of(const TableOneRow& row, double part) {
  ClusterSpec cluster = pipedream_cluster(row.preset, row.servers);
  auto& shape = std::get<TwoLevelCluster>(cluster.shape);
  shape.intra_bytes_per_second *= part;
  shape.inter_bytes_per_second *= part;
  return cluster;
}

double data_parallel_rate(const TableOneRow& row, double nccl) {
  return data_parallel_run(training_scenario(row.training, cluster_of(row, nccl)),
                           row.servers * row.devices_per_server)
      .samples_per_second;
}

double pipeline_rate(const TableOneRow& row, double gloo) {
  return pipeline_run(training_scenario(row.training, cluster_of(row, gloo)), row.pipeline)
      .samples_per_second;
}

/// Where a rising function is 0, between 0.02 and 1: to a 1000th of the place, by halves of its logarithm,
/// ln 50 / 2^13 = 0.0005. Each look is a simulation.
double root(const std::function<double(double)>& rising) {
  constexpr int kHalvings = 12;
  double low = std::log(0.02);
  double high = 0;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (rising(std::exp(middle)) < 0 ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

/// Parts of the links' bandwidth.
struct Parts {
  double nccl = 1;
  double gloo = 1;
};

Parts nccl_fitted() {
  // With Gloo at its full bandwidth, the rate of data parallelism that makes the printed ratio true.
  const double wanted = pipeline_rate(kVggOnA, 1) / kVggOnA.printed;
  return {.nccl = root([&](double nccl) { return data_parallel_rate(kVggOnA, nccl) - wanted; })};
}

Parts both_fitted(const Parts& nccl) {
  const double wanted = kAlexNetOnB.printed * data_parallel_rate(kAlexNetOnB, nccl.nccl);
  return {.nccl = nccl.nccl,
          .gloo = root([&](double gloo) { return pipeline_rate(kAlexNetOnB, gloo) - wanted; })};
}

/// A model may be in the table on two clusters, and on two sizes of one.
bool is_same(const TableOneRow& a, const TableOneRow& b) {
  return std::string(a.training.model) == b.training.model && std::string(a.preset) == b.preset &&
         a.servers == b.servers;
}

std::string what_of(const TableOneRow& row, const std::string& assumed) {
  return fmt::format("{} on {} x {} ({}), {}: {}", row.training.title, row.servers, row.devices_per_server,
                     std::string(row.preset).back() == 'a' ? "A" : "B",
                     row.pipeline.replicas.size() == 2
                         ? fmt::format("{}", fmt::join(row.pipeline.replicas, "-"))
                         : "straight",
                     assumed);
}

/// What is assumed of all rows.
struct Attempt {
  std::string title;
  Parts parts;
  std::vector<TableOneRow> fitted_on;
  std::vector<TableOneRow> tested;
  std::string why_missed;
};

bool has(const std::vector<TableOneRow>& some, const TableOneRow& row) {
  return std::ranges::any_of(some, [&](const TableOneRow& other) { return is_same(other, row); });
}

void add_rows(Figures& figures, const Attempt& attempt) {
  for (const TableOneRow& row : rows()) {
    const double ratio = pipeline_rate(row, attempt.parts.gloo) / data_parallel_rate(row, attempt.parts.nccl);
    const std::string what = what_of(row, attempt.title);
    if (has(attempt.fitted_on, row)) {
      figures.push_back(fitted(what, row.printed, ratio, "the part was fitted on it"));
    } else if (has(attempt.tested, row)) {
      figures.push_back(equal(Tolerance::ratio, what, row.printed, ratio));
    } else {
      figures.push_back(missed(Tolerance::ratio, what, row.printed, ratio, attempt.why_missed));
    }
  }
}

}  // namespace

std::vector<ReproducedFigure> reproduce_pipedream_table_1() {
  Figures figures;
  add_rows(figures, {.title = "all of the bandwidth",
                     .parts = {},
                     .fitted_on = {},
                     .tested = {},
                     .why_missed = "neither NCCL nor Gloo reached all of it"});
  const Parts nccl = nccl_fitted();
  figures.push_back(shown("part of the bandwidth that NCCL reaches", nccl.nccl));
  add_rows(figures, {.title = "that part of it for data parallelism",
                     .parts = nccl,
                     .fitted_on = {kVggOnA},
                     .tested = {kAlexNetOnA},
                     .why_missed = "one part for NCCL does not explain this row"});
  const Parts both = both_fitted(nccl);
  figures.push_back(shown("part of the bandwidth that Gloo reaches", both.gloo));
  add_rows(figures, {.title = "those parts for both",
                     .parts = both,
                     .fitted_on = {kAlexNetOnB},
                     .tested = {},
                     .why_missed = "a part for each library does not explain both clusters"});
  return figures;
}

}  // namespace penstock
