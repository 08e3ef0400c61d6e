// TF-Replicator (arXiv 1902.00465): in-graph replicas on a torus, gradients reduced in a ring. Cores are
// numbered to and fro along the rows, so that neighbours of the ring are neighbours of the torus and an even
// number of rows closes it:
//
//   0 > 1 > 2 > 3
//               v
//   7 < 6 < 5 < 4

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/read/cluster_spec.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/published/reproduce_cluster_runs.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

constexpr double kLinkBytesPerSecond = 80e9;
constexpr std::int64_t kLinkLatencyNs = 1'000;
constexpr Training kTraining{.model = "resnet50", .title = "ResNet-50", .samples = 4};

/// The place of a core in that ring.
std::int32_t number_of(std::int32_t row, std::int32_t column, std::int32_t columns) {
  return row * columns + (row % 2 == 0 ? column : columns - 1 - column);
}

/// Each core has a link each way to the right and one below, round the edges, so that all have four
/// neighbours.
ClusterSpec torus(std::int32_t rows, std::int32_t columns) {
  ClusterBuilder builder("torus");
  for (std::int32_t core = 0; core < rows * columns; ++core)
    builder.add_device({.name = fmt::format("core{}", core)});
  for (std::int32_t row = 0; row < rows; ++row) {
    for (std::int32_t column = 0; column < columns; ++column) {
      const std::int32_t here = number_of(row, column, columns);
      const std::int32_t right = number_of(row, (column + 1) % columns, columns);
      const std::int32_t below = number_of((row + 1) % rows, column, columns);
      builder.add_duplex_link(here, right, kLinkBytesPerSecond, kLinkLatencyNs);
      builder.add_duplex_link(here, below, kLinkBytesPerSecond, kLinkLatencyNs);
    }
  }
  auto cluster = builder.build();
  if (!cluster) throw std::logic_error(cluster.error());
  return {.shape = *std::move(cluster), .name = "torus"};
}

/// Samples a second of all cores.
double torus_rate(std::int32_t rows, std::int32_t columns) {
  return data_parallel_run(training_scenario(kTraining, torus(rows, columns)), rows * columns)
      .samples_per_second;
}

}  // namespace

std::vector<ReproducedFigure> reproduce_replicator() {
  struct Torus {
    std::int32_t rows;
    std::int32_t columns;
  };
  std::vector<ReproducedFigure> figures;
  // One core sends nothing, so that the torus around it makes no difference.
  const double alone = data_parallel_run(training_scenario(kTraining, torus(2, 2)), 1).samples_per_second;
  double before = 1;
  for (const Torus& size : {Torus{4, 4}, Torus{4, 8}, Torus{8, 16}, Torus{16, 32}}) {
    const std::int32_t cores = size.rows * size.columns;
    const double efficiency = torus_rate(size.rows, size.columns) / cores / alone;
    const std::string what = fmt::format("{} cores, global batch {}: ", cores, cores * kTraining.samples);
    figures.push_back(shown(what + "efficiency", efficiency));
    figures.push_back(no_more(what + "efficiency over that of fewer cores", efficiency / before));
    before = efficiency;
  }
  return figures;
}

}  // namespace penstock
