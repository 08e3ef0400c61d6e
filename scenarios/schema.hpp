#pragma once
// The schema of a scenario, a function a part. Each reads one part of a resolved document and notes what
// is wrong in a Problem; load.cpp puts the answers together.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/cluster_spec.hpp"
#include "scenarios/document.hpp"
#include "scenarios/model.hpp"
#include "scenarios/partition.hpp"
#include "scenarios/reader.hpp"
#include "scenarios/scenario.hpp"
#include "schedules/channel.hpp"
#include "schedules/generators.hpp"
#include "schedules/program.hpp"

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
};
SchedulePart read_schedule(const Node& node, Problem& problem);

/// `partition:` of load_training.cpp.
Partition read_partition(const Node& node, Problem& problem);

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
