#pragma once
// Functions that the reproductions of papers share: programs in units of time on links that take no time,
// models of the library, runs on real clusters, and the memory of weights, gradients and optimizer state.
// Only the reproduce_*.cpp files use it. If something cannot be planned, generated or run, the reproduction
// is wrong, and the functions throw std::logic_error.

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

/// The times of one stage for a microbatch, in units of time. They are rounded to a millionth of a unit.
struct UnitTimes {
  double forward = 1;
  double backward = 2;
  double recompute = 1;
};

/// The nanoseconds of one unit of time in a predicted run.
inline constexpr double kUnitNs = 1e6;

std::vector<UnitTimes> equal_stages(std::size_t count, const UnitTimes& times = {});

/// Generates the program of a schedule and predicts its run. Each message takes `latency` units of time.
Result predicted_run(const std::string& schedule, const Shape& shape, const std::vector<UnitTimes>& stages,
                     double latency = 0);

/// Returns the milliseconds of an all-reduce of `gradients` bytes over all devices of a cluster.
double reduction_ms(Cluster cluster, Bytes gradients);

double makespan_units(const Result& result);
/// Returns the steady time of one microbatch, in units of time. Returns 0 if the program has no period.
double period_units(const Result& result);

// A model of scenarios/library/models. Its text is part of the program, so published figures need no files.

struct LibraryModel {
  LayerGraph graph;
  std::int64_t batch = 1;  ///< number of samples for which the profile states times and bytes
};

/// Returns the model with the name "vgg16", "resnet50", "alexnet" or "gnmt". Other names are not allowed.
LibraryModel library_model(std::string_view name);

/// A model of the library, with the settings of its training in PipeDream's repository.
struct Training {
  const char* model;         ///< name for library_model()
  const char* title;         ///< name of the model in the paper
  std::int64_t samples = 1;  ///< number of samples in one worker's minibatch
  Optimizer optimizer = Optimizer::momentum;
};
inline constexpr Training kVgg16{.model = "vgg16", .title = "VGG-16", .samples = 64};
inline constexpr Training kAlexNet{.model = "alexnet", .title = "AlexNet", .samples = 256};
inline constexpr Training kResNet50{.model = "resnet50", .title = "ResNet-50", .samples = 128};
inline constexpr Training kGnmt8{
    .model = "gnmt", .title = "GNMT-8", .samples = 64, .optimizer = Optimizer::adam};

/// Returns the scenario of a training on a cluster. The caller adds data parallelism or a pipeline.
Scenario training_scenario(const Training& training, const ClusterSpec& cluster);
/// Returns the preset "pipedream-a" or "pipedream-b" with the given number of servers.
ClusterSpec pipedream_cluster(const std::string& preset, std::int32_t servers);

/// The limit for a ratio of memories that the paper calls "on a par". The paper compares a pipeline with
/// data parallelism there and prints no number, so this value is Penstock's.
inline constexpr double kOnAPar = 1.75;

/// The figures of a training in its steady state.
struct ClusterRun {
  std::string configuration;  ///< number of replicas of each stage, for example "15-1"
  double samples_per_second = 0;
  double megabytes_a_sample = 0;   ///< megabytes (1e6 bytes) that all devices send for one sample
  std::vector<double> stages_gib;  ///< GiB of the fullest device of each stage

  double fullest_gib() const;
};

/// Predicts a training with data parallelism on `devices` devices. Each device has the whole model, and the
/// gradients are reduced in eight buckets.
ClusterRun data_parallel_run(const Scenario& training, std::int32_t devices,
                             Reduction reduction = Reduction::overlapped);

/// A pipeline whose cuts and replicas the caller chooses.
struct CutPipeline {
  std::vector<std::int32_t> cuts;      ///< number of layers before each cut; empty: balanced stages
  std::vector<std::int32_t> replicas;  ///< replicas of each stage
  std::vector<std::int32_t> warmup{};  ///< number of warm-up forwards of each stage; empty: those of NOAM
};
/// Predicts a training with the given pipeline and the schedule 1F1B-RR.
ClusterRun pipeline_run(const Scenario& training, const CutPipeline& pipeline);

/// Predicts a training with the schedule 1F1B-RR. Its pipeline is the plan of PipeDream's recurrence as the
/// paper prints it.
ClusterRun planned_run(const Scenario& training, const PlanOptions& options);
/// Predicts a training like planned_run(), with more minibatches in flight. Each worker has `more` of them
/// beyond NOAM, even if they do not fit in memory.
ClusterRun deeper_planned_run(const Scenario& training, const PlanOptions& options, std::int32_t more);

/// The bytes that a stage stores while one microbatch is in flight.
struct StageState {
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;
  Bytes activations = 0;
};

/// Returns the peak memory in bytes of a device that holds the whole stage.
Bytes peak_of_one_stage(const StageState& state);

/// A model that is trained by data parallelism on `devices` devices. `sharding` is the stage of ZeRO, from 0
/// (nothing is sharded) to 3. A step processes the model bucket by bucket.
struct ShardedModel {
  StageState state;
  std::int32_t devices = 1;
  std::int32_t buckets = 1;
  std::int32_t sharding = 0;
};

/// Returns the peak bytes of the fullest device.
Bytes peak_of(const ShardedModel& model);
/// Returns the bytes that each device sends in one step.
Bytes sent_bytes(const ShardedModel& model);

}  // namespace penstock
