#pragma once
// Shared parts of the reproductions on real clusters: models of the library, trained by data parallelism and
// by pipelines. Used only by the reproduce_*.cpp files. A scenario that cannot be planned or run is an error
// of the reproduction and throws.

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// A model of the library with the settings of PipeDream's repository.
struct Training {
  const char* model;         ///< name for library_model()
  const char* title;         ///< name of the model in the paper
  std::int64_t samples = 1;  ///< samples of one worker's minibatch
  Optimizer optimizer = Optimizer::momentum;
};
inline constexpr Training kVgg16{.model = "vgg16", .title = "VGG-16", .samples = 64};
inline constexpr Training kAlexNet{.model = "alexnet", .title = "AlexNet", .samples = 256};
inline constexpr Training kResNet50{.model = "resnet50", .title = "ResNet-50", .samples = 128};
inline constexpr Training kGnmt8{
    .model = "gnmt", .title = "GNMT-8", .samples = 64, .optimizer = Optimizer::adam};

/// Returns the scenario of the training on a cluster. It does not choose data or pipeline parallelism.
Scenario training_scenario(const Training& training, const ClusterSpec& cluster);
/// Returns the preset "pipedream-a" or "pipedream-b" with the given number of servers.
ClusterSpec pipedream_cluster(const std::string& preset, std::int32_t servers);

/// Our bound for memory that the paper calls "on a par" with data parallelism. A worker has two minibatches
/// in flight instead of one, but does not hold the other stages.
inline constexpr double kOnAPar = 1.75;

/// The steady state of a training.
struct ClusterRun {
  std::string configuration;  ///< replicas of the stages, for example "15-1"
  double samples_per_second = 0;
  double megabytes_a_sample = 0;   ///< megabytes (1e6 bytes) that all devices send for one sample
  std::vector<double> stages_gib;  ///< GiB of the fullest device of each stage

  double fullest_gib() const;
};

/// Runs data parallelism: each device has the whole model and eight buckets of gradients.
ClusterRun data_parallel_run(const Scenario& training, std::int32_t devices,
                             Reduction reduction = Reduction::overlapped);

/// A pipeline with given cuts.
struct CutPipeline {
  std::vector<std::int32_t> cuts;      ///< number of layers before each cut; empty: balanced stages
  std::vector<std::int32_t> replicas;  ///< replicas of each stage
  std::vector<std::int32_t> warmup{};  ///< forwards of each stage before its first backward; empty: as NOAM
};
/// Runs the pipeline with 1F1B-RR.
ClusterRun pipeline_run(const Scenario& training, const CutPipeline& pipeline);

/// Plans with PipeDream's recurrence as printed, and runs its stages with 1F1B-RR.
ClusterRun planned_run(const Scenario& training, const PlanOptions& options);
/// Like planned_run(), but every worker has `more` minibatches in flight beyond NOAM, even if they do not fit
/// in memory.
ClusterRun deeper_planned_run(const Scenario& training, const PlanOptions& options, std::int32_t more);

}  // namespace penstock
