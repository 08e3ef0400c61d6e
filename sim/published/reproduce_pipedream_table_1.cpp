// Reproduces PipeDream (SOSP'19), table 1: the speed of pipelines relative to data parallelism. The
// pipelines used the library Gloo, and data parallelism used NCCL. Each library may reach only a part of
// the links' bandwidth. Three assumptions about these parts are tried:
//
//   1. both libraries reach the full bandwidth
//   2. NCCL reaches the part that gives VGG-16 on A its printed ratio; Gloo reaches the full bandwidth
//   3. like 2, but Gloo reaches the part that gives AlexNet on B its printed ratio
//
// A row to which a part was fitted tests nothing. The result is that NCCL's part, fitted on VGG-16, also
// predicts AlexNet on the same cluster, so this row is a test. It predicts neither the rows of cluster B nor
// a straight pipeline. If a part for Gloo is fitted as well, the correct rows of cluster A become wrong. So
// one part for each library does not explain the table. All other rows are listed as missed, even if the
// prediction is close.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/read/scenario.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/published/reproduce_runs.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

using Figures = std::vector<ReproducedFigure>;

/// A row of the table: the model, the servers of the cluster that are used, the pipeline, and the printed
/// ratio.
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

/// Returns the row's cluster with all bandwidths multiplied by `part`.
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

/// Returns the value between 0.02 and 1 at which the increasing function `rising` is 0. It halves the
/// interval of the value's logarithm, so the relative error is at most ln 50 / 2^13 = 0.0005.
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

/// The parts of the links' bandwidth that the two libraries reach.
struct Parts {
  double nccl = 1;
  double gloo = 1;
};

Parts nccl_fitted() {
  // The rate of data parallelism at which the predicted ratio equals the printed one, if Gloo reaches the
  // full bandwidth.
  const double wanted = pipeline_rate(kVggOnA, 1) / kVggOnA.printed;
  return {.nccl = root([&](double nccl) { return data_parallel_rate(kVggOnA, nccl) - wanted; })};
}

Parts both_fitted(const Parts& nccl) {
  const double wanted = kAlexNetOnB.printed * data_parallel_rate(kAlexNetOnB, nccl.nccl);
  return {.nccl = nccl.nccl,
          .gloo = root([&](double gloo) { return pipeline_rate(kAlexNetOnB, gloo) - wanted; })};
}

/// Returns true if two rows have the same model, cluster and number of servers. The table contains some
/// models several times.
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

/// One assumption about the bandwidths. It has the rows to which it was fitted, and the rows that test it.
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
