#pragma once
// The schema of a scenario, a function a part. Each reads one part of a resolved document and notes what
// is wrong in a Problem; load.cpp puts the answers together.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// `model:` of load_model.cpp.
struct ModelPart {
  Model model;
  std::optional<NetworkSpec> network{};
  std::optional<std::int64_t> batch{};  ///< samples that its times and bytes hold for
  std::int32_t devices_per_rank = 1;
  Precision precision = Precision::full;  ///< where `training` does not say it
  std::vector<std::string> notes{};       ///< what was assumed
};
/// A transformer takes its peak rate from the cluster.
ModelPart read_model(const Node& node, const ClusterSpec& cluster, Problem& problem);

/// `cluster:` of load_cluster.cpp.
ClusterSpec read_cluster(const Node& node, Problem& problem);

/// `schedule:` of load_schedule.cpp.
struct SchedulePart {
  std::string name;  ///< empty: not given
  std::optional<std::int32_t> stages;
  std::optional<std::int64_t> microbatches;
  Shape shape;
  std::optional<Program> program;
  ChannelOptions channels;
  std::vector<std::string> notes{};  ///< what was mended in the program's file
};
SchedulePart read_schedule(const Node& node, Problem& problem);

/// `partition:` of load_training.cpp, whose cuts may name the model's layers.
Partition read_partition(const Node& node, const Model& model, Problem& problem);

/// `training:` of load_training.cpp.
struct TrainingPart {
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int32_t> iterations;
  Optimizer optimizer = Optimizer::sgd;
  std::optional<Precision> precision{};
  std::optional<FailureRates> failures{};
};
TrainingPart read_training(const Node& node, Problem& problem);

}  // namespace penstock
