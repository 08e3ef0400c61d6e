// Compares predictions of data parallelism with published formulas. In a ring all-reduce, each of n devices
// sends 2 (n - 1) / n of the bytes (Patarasuk and Yuan, 2009). ZeRO shards the weights, gradients and
// optimizer state (Rajbhandari et al., SC'20, sections 5 and 7).

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/published/reproduce.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

// The values are arbitrary, because the formula contains them as well.
constexpr double kBytesPerSecond = 1e10;
constexpr Ns kLatencyNs = 5'000;

Cluster links(std::int32_t devices) {
  auto cluster =
      uniform_cluster({.devices = devices, .bytes_per_second = kBytesPerSecond, .latency_ns = kLatencyNs});
  if (!cluster) throw std::logic_error(cluster.error());
  return *std::move(cluster);
}

/// Returns a model with `parameters` parameters that mixed-precision Adam trains. For each parameter, the
/// weight and the gradient have 2 bytes each. The copy of the weight and the two moments have 4 bytes each.
/// There are no activations. While a bucket is processed, a device holds it unsharded. The paper's formulas
/// ignore this, so a bucket is only a thousandth of the model.
ShardedModel zero(std::int64_t parameters, std::int32_t devices, std::int32_t sharding) {
  return {.state = {.weights = 2 * parameters,
                    .gradients = 2 * parameters,
                    .optimizer_state = 12 * parameters,
                    .activations = 0},
          .devices = devices,
          .buckets = 1000,
          .sharding = sharding};
}

/// Returns decimal gigabytes (10^9 bytes).
double gigabytes(Bytes bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

std::vector<ReproducedFigure> reproduce_data_parallelism() {
  std::vector<ReproducedFigure> figures;
  for (const std::int32_t replicas : {2, 4, 8, 64}) {
    for (const Bytes bytes : {Bytes{1'000'000}, Bytes{500'000'000}}) {
      const double n = replicas;
      const double closed_form = (2 * (n - 1) / n * static_cast<double>(bytes) / kBytesPerSecond * 1e3) +
                                 (2 * (n - 1) * static_cast<double>(kLatencyNs) / 1e6);
      figures.push_back(
          formula(fmt::format("{} replicas, {} MB of gradients: ms", replicas, bytes / 1'000'000),
                  closed_form, reduction_ms(links(replicas), bytes), Tolerance::nanoseconds));
    }
  }
  return figures;
}

std::vector<ReproducedFigure> reproduce_horovod() {
  constexpr std::int32_t kServers = 128;
  constexpr std::int32_t kDevices = 4 * kServers;
  const Training vgg{.model = "vgg16", .title = "VGG-16", .samples = 64};
  ClusterSpec cluster = pipedream_cluster("pipedream-a", kServers);
  auto& shape = std::get<TwoLevelCluster>(cluster.shape);
  shape.inter_bytes_per_second = 25e9 / 8;
  shape.inter_latency_ns = 5'000;
  const Scenario training = training_scenario(vgg, cluster);
  const double efficiency = data_parallel_run(training, kDevices).samples_per_second / kDevices /
                            data_parallel_run(training, 1).samples_per_second;
  return {noted(equal(Tolerance::ratio, "VGG-16 on 512 GPUs: scaling efficiency", 0.68, efficiency),
                "its GPUs are slower than the profile's, so that less of a step is computed here")};
}

std::vector<ReproducedFigure> reproduce_zero() {
  constexpr std::int64_t kSmall = 7'500'000'000;
  // Section 7: ZeRO stages 1 and 2 send as many bytes as data parallelism, twice the weights. Stage 3 also
  // gathers the weights once more, so it sends three times the weights.
  const auto traffic = [&](std::int32_t sharding) {
    return static_cast<double>(sent_bytes(zero(kSmall, 8, sharding))) /
           static_cast<double>(sent_bytes(zero(kSmall, 8, 0)));
  };
  const auto memory = [&](std::int32_t sharding) { return gigabytes(peak_of(zero(kSmall, 64, sharding))); };
  return {
      rounded(0, "7.5 B parameters, 64 devices, nothing sharded: GB", 120, memory(0)),
      rounded(1, "7.5 B parameters, 64 devices, ZeRO stage 1: GB", 31.4, memory(1)),
      noted(rounded(1, "7.5 B parameters, 64 devices, ZeRO stage 2: GB", 16.6, memory(2)),
            "one of the 1000 buckets is whole for a moment, which the formula leaves out"),
      rounded(1, "7.5 B parameters, 64 devices, ZeRO stage 3: GB", 1.9, memory(3)),
      // With tensor degree 16, each 16th of the model is sharded over 400 / 16 = 25 devices.
      at_most("100 B parameters, 400 devices, tensor degree 16, ZeRO stage 2: at most 32 GB", 32,
              gigabytes(peak_of(zero(100'000'000'000 / 16, 25, 2)))),
      formula("bytes sent over those of data parallelism, ZeRO stage 1", 1, traffic(1),
              Tolerance::nanoseconds),
      formula("bytes sent over those of data parallelism, ZeRO stage 2", 1, traffic(2),
              Tolerance::nanoseconds),
      formula("bytes sent over those of data parallelism, ZeRO stage 3", 1.5, traffic(3),
              Tolerance::nanoseconds),
  };
}

// TF-Replicator (arXiv 1902.00465): data parallelism on a torus of TPU cores. The paper draws a scaling curve
// without numbers, so the time of the reduction is compared with formulas. B is the bandwidth of a link, and
// a its latency. A ring through all n = r x c cores takes
//
//   2(n-1)/n bytes/B + 2(n-1) a
//
// A ring in each column and then in each row takes 2(n-1)/n bytes/B + 2(r-1 + c-1) a.

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

/// Returns the samples per second of all cores together if gradients are reduced first in one dimension of
/// the torus and then in the other.
double torus_rate(std::int32_t rows, std::int32_t columns, std::int32_t cores) {
  const ClusterSpec cluster{.shape = torus(rows, columns, TorusCollectives::dimensions), .name = "torus"};
  return data_parallel_run(training_scenario(kTraining, cluster), cores).samples_per_second;
}

/// Returns the time of an all-reduce by the published formula, in milliseconds. The all-reduce is a
/// reduce-scatter and then an all-gather. Each of the two takes `steps` steps, and each step adds the latency
/// of one link.
double closed_form_ms(std::int32_t cores, Bytes bytes, std::int32_t steps) {
  const double n = cores;
  return (2 * (n - 1) / n * static_cast<double>(bytes) / kLinkBytesPerSecond * 1e3) +
         (2.0 * steps * static_cast<double>(kLinkLatencyNs) / 1e6);
}

/// Adds the times of both all-reduce algorithms for the gradients of ResNet-50.
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
  // A single core sends nothing, so the size of the torus has no effect.
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
