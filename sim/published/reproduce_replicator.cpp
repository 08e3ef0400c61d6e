// TF-Replicator (arXiv 1902.00465): in-graph replicas on a torus of TPU cores. The paper's scaling curve has
// no numbers, so the reduction is compared with closed forms. A ring through all n = r x c cores takes
//
//   2(n-1)/n bytes/B + 2(n-1) a
//
// A ring in each column and then in each row takes 2(n-1)/n bytes/B + 2(r-1 + c-1) a.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/read/cluster_spec.hpp"
#include "schedules/ir/action.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/published/reproduce_cluster_runs.hpp"
#include "sim/published/reproduce_runs.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr double kLinkBytesPerSecond = 80e9;
constexpr std::int64_t kLinkLatencyNs = 1'000;
constexpr Training kTraining{.model = "resnet50", .title = "ResNet-50", .samples = 4};

Cluster torus(std::int32_t rows, std::int32_t columns, TorusCollectives collectives) {
  auto cluster = torus_cluster({.dimensions = {rows, columns},
                                .bytes_per_second = kLinkBytesPerSecond,
                                .latency_ns = kLinkLatencyNs,
                                .collectives = collectives});
  if (!cluster) throw std::logic_error(cluster.error());
  return *std::move(cluster);
}

/// Returns the samples per second of all cores, which reduce by dimension.
double torus_rate(std::int32_t rows, std::int32_t columns, std::int32_t cores) {
  const ClusterSpec cluster{.shape = torus(rows, columns, TorusCollectives::dimensions), .name = "torus"};
  return data_parallel_run(training_scenario(kTraining, cluster), cores).samples_per_second;
}

/// Returns the closed form in milliseconds. Each of `steps` steps takes the latency of one link twice.
double closed_form_ms(std::int32_t cores, Bytes bytes, std::int32_t steps) {
  const double n = cores;
  return (2 * (n - 1) / n * static_cast<double>(bytes) / kLinkBytesPerSecond * 1e3) +
         (2.0 * steps * static_cast<double>(kLinkLatencyNs) / 1e6);
}

/// Adds the time to reduce the gradients of ResNet-50 with both algorithms.
void add_reductions(std::vector<ReproducedFigure>& figures, std::int32_t rows, std::int32_t columns) {
  constexpr Bytes kGradients = 102'400'000;
  const std::int32_t cores = rows * columns;
  figures.push_back(formula(fmt::format("{} cores, 102.4 MB reduced in one ring: ms", cores),
                            closed_form_ms(cores, kGradients, cores - 1),
                            reduction_ms(torus(rows, columns, TorusCollectives::ring), kGradients),
                            Tolerance::nanoseconds));
  figures.push_back(formula(fmt::format("{} cores, 102.4 MB reduced by dimension: ms", cores),
                            closed_form_ms(cores, kGradients, rows - 1 + columns - 1),
                            reduction_ms(torus(rows, columns, TorusCollectives::dimensions), kGradients),
                            Tolerance::nanoseconds));
}

}  // namespace

std::vector<ReproducedFigure> reproduce_replicator() {
  struct Size {
    std::int32_t rows;
    std::int32_t columns;
  };
  std::vector<ReproducedFigure> figures;
  // One core sends nothing, so the size of the torus around it has no effect.
  const double alone = torus_rate(2, 2, 1);
  double before = 1;
  for (const Size& size : {Size{4, 4}, Size{4, 8}, Size{8, 16}, Size{16, 32}}) {
    const std::int32_t cores = size.rows * size.columns;
    const double efficiency = torus_rate(size.rows, size.columns, cores) / cores / alone;
    const std::string what = fmt::format("{} cores, global batch {}: ", cores, cores * kTraining.samples);
    figures.push_back(shown(what + "efficiency", efficiency));
    figures.push_back(no_more(what + "efficiency over that of fewer cores", efficiency / before));
    add_reductions(figures, size.rows, size.columns);
    before = efficiency;
  }
  return figures;
}

}  // namespace penstock
