#pragma once
// The schema of a scenario, a function a part. Each reads one part of a resolved document and notes what
// is wrong in a Problem; load.cpp puts the answers together.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/keys.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/gather.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// `model:` of load_model.cpp.
struct ModelPart {
  Model model;
  std::optional<NetworkSpec> network{};
  std::optional<std::int64_t> batch{};  ///< samples that its times and bytes hold for
  std::int32_t devices_per_rank = 1;
  Precision precision = Precision::full;           ///< where `training` does not say it
  std::optional<ArchitecturePart> architecture{};  ///< of a model that is priced on named devices
  std::vector<std::string> notes{};                ///< what was assumed
};
/// A transformer takes its peak rate from the cluster.
ModelPart read_model(const Node& node, const ClusterSpec& cluster, Problem& problem);

/// Return the keys of the parts, each from the file that reads them.
std::vector<KeyGroup> model_keys();
std::vector<KeyGroup> cluster_keys();
std::vector<KeyGroup> device_cluster_keys();
std::vector<KeyGroup> parallel_keys();
std::vector<KeyGroup> schedule_keys();
std::vector<KeyGroup> training_keys();

/// `cluster:` of load_cluster.cpp.
ClusterSpec read_cluster(const Node& node, Problem& problem);
/// `cluster: {device: ..}` of load_device.cpp.
ClusterSpec read_device_cluster(const Node& node, Problem& problem);
/// `price: 2.5`, of a device for an hour; of load_cluster.cpp.
std::optional<double> read_price(const MappingReader& reader);
/// Reads `reserve`, the bytes of each device that a plan may not use; nothing where it is left out. Notes a
/// problem where it is more than the memory.
std::optional<std::int64_t> read_reserve(const MappingReader& reader,
                                         std::optional<std::int64_t> memory_bytes);

/// `host:` of load_training.cpp.
LaunchCost read_host(const Node& node, Problem& problem);

/// `parallel:` of load_device.cpp.
struct ParallelPart {
  Parallel degrees;  ///< `data` is 1 where it is not stated
  std::optional<std::int32_t> data{};
  std::optional<bool> distributed_optimizer{};
  std::optional<Gather> gather{};
  bool states_order = false;
  std::string place;  ///< where it was written, for messages; empty: nowhere
};
ParallelPart read_parallel(const Node& node, Problem& problem);

/// `schedule:` of load_schedule.cpp.
struct SchedulePart {
  std::string name;  ///< empty: not given
  std::optional<std::int32_t> stages;
  std::optional<std::int64_t> microbatches;
  Shape shape;
  std::optional<Program> program;
  ChannelOptions channels;
  std::optional<LayerSplit> layer_split{};
  std::vector<std::string> notes{};  ///< what was mended in the program's file
  bool states_chunks = false;        ///< virtual_stages is given
};
SchedulePart read_schedule(const Node& node, Problem& problem);

/// `partition:` of load_training.cpp, whose cuts may name the model's layers.
Partition read_partition(const Node& node, const Model& model, Problem& problem);

/// `training:` of load_training.cpp.
struct TrainingPart {
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int32_t> iterations;
  std::optional<Optimizer> optimizer{};
  std::optional<Precision> precision{};
  std::optional<bool> clones_versions{};
  std::optional<GemmPrecision> device_precision{};  ///< bf16, fp8, fp4
  std::optional<LayerRecompute> recompute{};
  std::optional<std::int32_t> gradient_bytes{};  ///< a parameter, 2 or 4
  std::optional<bool> deferred_head{};           ///< the head's weight gradient at the end of the step
  std::optional<Ns> expert_layer_ns{};           ///< of a layer of experts beside the terms that are known
  std::optional<Ns> host_layer_ns{};             ///< least time of a layer, both ways, by the host
  std::optional<FailureRates> failures{};
};
TrainingPart read_training(const Node& node, Problem& problem);

/// The parts that a model on named devices is made of.
struct DeviceModelParts {
  const ModelPart& model;
  const ClusterSpec& cluster;
  const ParallelPart& parallel;
  const SchedulePart& schedule;
  const TrainingPart& training;
};
/// What they say of it; of load_device.cpp. Complains at `document` of what is missing, and of what belongs
/// to such a model alone where there is none.
std::optional<DeviceModel> device_model_of(const Node& document, const DeviceModelParts& parts,
                                           Problem& problem);

}  // namespace penstock
