#pragma once
// What the reproductions of papers have in common: programs on free links in units of time, the models of
// the library, runs on real clusters, and the memory of states alone. Only the reproduce_*.cpp files use
// it. What cannot be planned, generated or run is a fault of theirs and throws.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The times of one stage, in units. They are rounded to a millionth of a unit.
struct UnitTimes {
  double forward = 1;
  double backward = 2;
  double recompute = 1;
};

/// The nanoseconds of one unit of time in a predicted run.
inline constexpr double kUnitNs = 1e6;

std::vector<UnitTimes> equal_stages(std::size_t count, const UnitTimes& times = {});

/// Predicts the program of a shape that the schedule's generator accepts. Each message takes `latency` units.
Result predicted_run(const std::string& schedule, const Shape& shape, const std::vector<UnitTimes>& stages,
                     double latency = 0);

/// Returns the milliseconds of a data-parallel step over all devices of a cluster. Only the reduction of the
/// gradients takes time.
double reduction_ms(Cluster cluster, Bytes gradients);

double makespan_units(const Result& result);
/// Returns the units from the end of one minibatch to the end of the next. Returns 0 if the program has no
/// period.
double period_units(const Result& result);

// The models of scenarios/library/models. They are compiled in, so that published figures need no files.

struct LibraryModel {
  LayerGraph graph;
  std::int64_t batch = 1;  ///< number of samples for which the profile states times and bytes
};

/// Returns a model: "vgg16", "resnet50", "alexnet" or "gnmt". Requires one of these names.
LibraryModel library_model(std::string_view name);

// Shared parts of the reproductions on real clusters: models of the library, trained by data parallelism and
// by pipelines. Used only by the reproduce_*.cpp files. A scenario that cannot be planned or run is an error
// of the reproduction and throws.

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

// The simulated memory of one training step of which only the states matter. Published tables of the "largest
// model that fits" are recomputed with it.

/// The bytes of one stage with one microbatch at a time.
struct StageState {
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;
  Bytes activations = 0;
};

/// Returns the peak of a device that holds the whole stage.
Bytes peak_of_one_stage(const StageState& state);

/// A model that `devices` share. `sharding` is the stage of ZeRO, from 0 (nothing is sharded) to 3. The step
/// processes the model bucket by bucket.
struct ShardedModel {
  StageState state;
  std::int32_t devices = 1;
  std::int32_t buckets = 1;
  std::int32_t sharding = 0;
};

/// Returns the peak of each device.
Bytes peak_of(const ShardedModel& model);
/// Returns the bytes that each device sends in one step.
Bytes sent_bytes(const ShardedModel& model);

}  // namespace penstock
