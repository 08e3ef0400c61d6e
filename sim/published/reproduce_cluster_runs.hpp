#pragma once
// What the reproductions on real clusters have in common: the models of the library trained by data
// parallelism and by pipelines. Private to the reproduce_*.cpp files. What cannot be planned or run is a
// fault of theirs and throws.

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// A model of the library as PipeDream's repository trains it.
struct Training {
  const char* model;         ///< of library_model()
  const char* title;         ///< in the paper
  std::int64_t samples = 1;  ///< of a worker's minibatch
  Optimizer optimizer = Optimizer::momentum;
};
inline constexpr Training kVgg16{.model = "vgg16", .title = "VGG-16", .samples = 64};
inline constexpr Training kAlexNet{.model = "alexnet", .title = "AlexNet", .samples = 256};
inline constexpr Training kResNet50{.model = "resnet50", .title = "ResNet-50", .samples = 128};
inline constexpr Training kGnmt8{
    .model = "gnmt", .title = "GNMT-8", .samples = 64, .optimizer = Optimizer::adam};

/// The training on a cluster; how it is parallel stays open.
Scenario training_scenario(const Training& training, const ClusterSpec& cluster);
/// The preset "pipedream-a" or "pipedream-b" with that number of servers.
ClusterSpec pipedream_cluster(const std::string& preset, std::int32_t servers);

/// Bound of ours on a worker's memory that is "on a par" with data parallelism's: two minibatches in flight
/// instead of one, less what the other stages hold.
inline constexpr double kOnAPar = 1.75;

/// The steady state of a training.
struct ClusterRun {
  std::string configuration;  ///< replicas of the stages: "15-1"
  double samples_per_second = 0;
  double megabytes_a_sample = 0;   ///< decimal, sent by all devices
  std::vector<double> stages_gib;  ///< of the fullest device of each stage

  double fullest_gib() const;
};

/// Each device has the whole model; eight buckets of gradients.
ClusterRun data_parallel_run(const Scenario& training, std::int32_t devices,
                             Reduction reduction = Reduction::overlapped);

/// A pipeline that somebody else has cut.
struct CutPipeline {
  std::vector<std::int32_t> cuts;      ///< layers before each cut; empty: balanced
  std::vector<std::int32_t> replicas;  ///< of each stage
  std::vector<std::int32_t> warmup{};  ///< minibatches in flight - 1; empty: NOAM - 1
};
/// 1F1B-RR.
ClusterRun pipeline_run(const Scenario& training, const CutPipeline& pipeline);

/// 1F1B-RR over the stages that PipeDream's recurrence, as printed, chooses.
ClusterRun planned_run(const Scenario& training, const PlanOptions& options);
/// The same with `more` minibatches in flight on every worker than NOAM has, whether they fit or not.
ClusterRun deeper_planned_run(const Scenario& training, const PlanOptions& options, std::int32_t more);

}  // namespace penstock
