// PipeDream's partitioner on its released profiles, and the bytes that its plans send.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model.hpp"
#include "scenarios/partition.hpp"
#include "scenarios/pipedream_levels.hpp"
#include "scenarios/pipedream_partition.hpp"
#include "scenarios/plan_options.hpp"
#include "sim/library_models.hpp"
#include "sim/reproduce.hpp"

namespace penstock {
namespace {

PipelinePlan plan_of(const LayerGraph& graph, std::int32_t workers, double bytes_per_second,
                     const PlanOptions& options) {
  const std::vector<BandwidthLevel> levels = {{.components = workers, .bytes_per_second = bytes_per_second}};
  auto plan = plan_pipeline(graph, levels, options);
  if (!plan) throw std::logic_error(plan.error());
  return *std::move(plan);
}

/// One row of the released partitioner's output.
struct PublishedPlan {
  const char* model;
  double bytes_per_second;
  double period_seconds;
  double speed_up_over_data_parallel;  ///< 0: not printed
  std::int32_t workers;
  PlanForm form;
  CutTransfers transfers;
};

constexpr auto kReplicated = PlanForm::replicated;
constexpr auto kStraight = PlanForm::straight;
constexpr auto kCounted = CutTransfers::counted;
constexpr auto kFree = CutTransfers::free;

constexpr PublishedPlan kPlans[] = {
    {"vgg16", 1e9, 0.205520896, 2.837698712640879, 4, kReplicated, kCounted},
    {"vgg16", 1e9, 0.175732624, 3.3187143555086274, 4, kReplicated, kFree},
    {"vgg16", 1e9, 0.21645, 0, 4, kStraight, kFree},
    {"vgg16", 1.25e9, 0.05479489083076923, 2.6608611366760373, 16, kReplicated, kCounted},
    {"vgg16", 1e10, 0.23559, 0, 4, kStraight, kCounted},
    {"gnmt", 1e9, 0.025868, 0, 4, kReplicated, kCounted},
    {"gnmt", 1e9, 0.025868, 0, 4, kStraight, kCounted},
    {"resnet50", 1e9, 0.162880924, 0, 4, kReplicated, kCounted},
};

std::string what_of(const PublishedPlan& row) {
  return fmt::format("{} on {} at {:g} GB/s{}{}", row.model, row.workers, row.bytes_per_second / 1e9,
                     row.form == kStraight ? ", straight" : "", row.transfers == kFree ? ", free cuts" : "");
}

/// Seconds of the released code's data parallelism: (T + 4(m-1)W/(Bm)) / m.
double data_parallel_seconds(const LayerGraph& graph, std::int32_t workers, double bytes_per_second) {
  double compute = 0;
  double weights = 0;
  for (const Layer& layer : graph.layers) {
    compute += static_cast<double>(layer.forward_ns + layer.backward_ns) / 1e9;
    weights += static_cast<double>(layer.weights);
  }
  const double m = workers;
  return (compute + 4 * (m - 1) * weights / (bytes_per_second * m)) / m;
}

// --- traffic --------------------------------------------------------------------------------------------

/// MB a sample of a pipeline of two stages on 4 devices, `before` layers in the first; 0: all in one stage.
double megabytes(const LibraryModel& model, std::int32_t samples, std::size_t before,
                 std::int32_t first_replicas) {
  PlannedStage first;
  PlannedStage second;
  for (std::size_t layer = 0; layer < model.graph.layers.size(); ++layer)
    (layer < before || before == 0 ? first : second).weights += model.graph.layers[layer].weights;
  for (std::int32_t device = 0; device < 4; ++device)
    (device < first_replicas ? first : second).devices.push_back(device);
  PipelinePlan plan{.period_ns = 0, .stages = {first}};
  if (before > 0) {
    const auto cut = cut_bytes(model.graph, static_cast<std::int32_t>(before));
    if (!cut) throw std::logic_error(cut.error());
    plan.stages[0].cut = *cut * samples / model.batch;
    plan.stages.push_back(second);
  }
  return bytes_per_minibatch(plan) / samples / 1e6;
}

}  // namespace

std::vector<ReproducedFigure> reproduce_pipedream_plans() {
  std::vector<ReproducedFigure> figures;
  for (const PublishedPlan& row : kPlans) {
    const LayerGraph graph = library_model(row.model).graph;
    const PlanOptions options{.objective = PlanObjective::sum, .form = row.form, .transfers = row.transfers};
    const double period = plan_of(graph, row.workers, row.bytes_per_second, options).period_ns * 1e-9;
    figures.push_back(within(1e-9, what_of(row) + ": seconds", row.period_seconds, period));
    if (row.speed_up_over_data_parallel == 0) continue;
    figures.push_back(within(1e-6, what_of(row) + ": over data parallelism", row.speed_up_over_data_parallel,
                             data_parallel_seconds(graph, row.workers, row.bytes_per_second) / period));
  }
  const PlanOptions straight{.objective = PlanObjective::sum, .form = kStraight};
  figures.push_back({.what = "resnet50 on 4 at 1 GB/s, straight: seconds",
                     .published = 0.258149,
                     .predicted = plan_of(library_model("resnet50").graph, 4, 1e9, straight).period_ns * 1e-9,
                     .claim = Claim::at_most,
                     .note = "the released code counts tensors that no later layer reads"});
  return figures;
}

std::vector<ReproducedFigure> reproduce_pipedream_traffic() {
  const LibraryModel vgg = library_model("vgg16");
  const LibraryModel resnet = library_model("resnet50");
  const LibraryModel alexnet = library_model("alexnet");
  constexpr std::size_t kVggFullyConnected = 33;  // layers before node35
  std::size_t resnet_cut = 0;                     // behind node95
  while (!resnet.graph.layers[resnet_cut].name.ends_with("-95")) ++resnet_cut;
  std::size_t alexnet_cut = 0;  // before the first fully connected layer
  while (!alexnet.graph.layers[alexnet_cut].name.starts_with("Linear")) ++alexnet_cut;
  const double alexnet_all = megabytes(alexnet, 256, 0, 4);
  std::vector<ReproducedFigure> figures = {
      within(1e-3, "VGG-16, 64 samples a minibatch, data parallel", 12.971, megabytes(vgg, 64, 0, 4)),
      within(1e-3, "VGG-16, 64 samples a minibatch, 3-1 before node35", 1.427,
             megabytes(vgg, 64, kVggFullyConnected, 3)),
      at_least("VGG-16: part of the bytes that the pipeline saves, over 85 %", 0.85,
               1 - megabytes(vgg, 64, kVggFullyConnected, 3) / megabytes(vgg, 64, 0, 4)),
      within(5e-3, "ResNet-50, 128 samples a minibatch, data parallel", 1.20, megabytes(resnet, 128, 0, 4)),
      within(5e-3, "ResNet-50, 128 samples a minibatch, 2-2 behind node95", 2.81,
             megabytes(resnet, 128, resnet_cut + 1, 2)),
      {.what = "AlexNet, 256 samples a minibatch, 3-1 over data parallel: less than 1",
       .published = 1,
       .predicted = megabytes(alexnet, 256, alexnet_cut, 3) / alexnet_all,
       .claim = Claim::at_most},
  };
  figures[4].note = "the pipeline sends more than data parallelism";
  return figures;
}

}  // namespace penstock
