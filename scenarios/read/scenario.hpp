#pragma once
// The experiment that a scenario file describes: model, cluster, schedule, batch and training. load.hpp reads
// it, and experiment.hpp converts it to the input of an engine. Batch and cluster are defined before the
// other parts.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// The batch sizes and the number of microbatches. Two of micro_batch_size, global_batch_size and
/// microbatches determine the third. If all three are stated, they must agree. If neither size is stated, a
/// microbatch has one sample.
struct Batch {
  /// The number of samples to which the model's stated times and bytes apply.
  std::int64_t own_micro_batch_size = 1;
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> microbatches;

  friend bool operator==(const Batch&, const Batch&) = default;
};

/// The relation of a microbatch to the minibatch in a schedule.
enum class MicrobatchMeaning : std::uint8_t {
  part_of_minibatch,  // global_batch_size = micro_batch_size * microbatches
  whole_minibatch,    // asynchronous schedules: both sizes are equal, for any number of microbatches
};

/// Returns the meaning of a microbatch in the schedule `name`, or part_of_minibatch for an unknown name.
MicrobatchMeaning meaning_of_microbatch(std::string_view name);

/// Returns the batch `own` (such as that of a file) with the numbers of `stated` (such as flags) in place of
/// its own. If all three are then present, one that is not in `stated` is removed, and is later computed from
/// the other two. If `stated` does not have the number of microbatches, this number is removed; otherwise a
/// size is removed. If a microbatch is a whole minibatch, a size in `stated` also replaces the other size.
Batch overridden(const Batch& own, const Batch& stated, MicrobatchMeaning meaning);

/// The microbatch size and the number of microbatches of a run. Both are at least 1.
struct ResolvedBatch {
  std::int64_t micro_batch_size = 1;
  std::int32_t microbatches = 1;

  friend bool operator==(const ResolvedBatch&, const ResolvedBatch&) = default;
};

/// Computes the missing figures of the batch. Fails if a number is below 1, or if sizes do not agree. Also
/// fails if a batch size is not divisible as required; the error then suggests the nearest sizes that are.
/// Also fails if the number of microbatches is unknown or above 2^31 - 1. The error names all figures
/// involved.
tl::expected<ResolvedBatch, std::string> resolve_batch(const Batch& batch, MicrobatchMeaning meaning);

/// Returns the samples of one microbatch, or nothing if the sizes alone do not determine them.
std::optional<std::int64_t> micro_batch_size_of(const Batch& batch, MicrobatchMeaning meaning);
/// Returns the samples of one minibatch, or nothing if the sizes alone do not determine them. Fails if there
/// are more than 2^63 samples.
tl::expected<std::optional<std::int64_t>, std::string> global_batch_size_of(const Batch& batch,
                                                                            MicrobatchMeaning meaning);

/// Returns the batch of one copy of a pipeline, if `copies` copies share the global batch. A microbatch has
/// one sample unless its size is stated or follows from other figures. Returns an error if the global batch
/// cannot be divided evenly.
tl::expected<Batch, std::string> batch_of_copy(Batch batch, std::int32_t copies);

// The cluster as a scenario states it. load.hpp reads it. experiment.hpp builds it later, when the number of
// ranks is known. A sweep over K therefore needs no number of devices.

/// The part of a cluster that has one kind of device, and the number of its nodes.
struct DeviceCluster {
  DeviceType type;
  std::int32_t nodes = 1;
  std::shared_ptr<const KernelTables> kernels{};  ///< the kernels that were measured on the device
  bool states_reserve = false;  ///< true if the scenario states the reserved bytes of a device
  std::int64_t device_count() const { return std::int64_t{nodes} * type.devices_per_node; }
};

/// The order in which the ranks of a pipeline go through the groups of devices that a scenario lists.
enum class GroupOrder : std::uint8_t {
  stated,    // the first ranks are on the first group
  reversed,  // the first ranks are on the last group
};
template <>
inline constexpr auto kEnumWords<GroupOrder> =
    std::to_array<EnumWord<GroupOrder>>({{GroupOrder::stated, "stated"}, {GroupOrder::reversed, "reversed"}});

/// A cluster as a scenario states it: a preset with parameters, or a list of devices and links.
struct ClusterSpec {
  /// The shape. A UniformCluster with 0 devices gets as many devices as the program has ranks.
  std::variant<UniformCluster, TwoLevelCluster, Cluster> shape =
      UniformCluster{.devices = 0, .memory_bytes = {}};
  std::string name = "uniform";                   ///< the preset's name in error messages
  std::optional<double> price_per_device_hour{};  ///< >= 0, in the user's currency
  /// The devices and nodes of the cluster, if the scenario names a kind of device. `shape` is then computed
  /// from them.
  std::optional<DeviceCluster> named{};
  /// The groups of devices in the order of the ranks, if the scenario lists groups. The first is `named`.
  std::vector<DeviceCluster> groups{};
  /// The order of `groups`, compared with the order in which the scenario lists them.
  GroupOrder group_order = GroupOrder::stated;
  /// The number of real devices that one device of `shape` represents. These devices share each layer.
  std::int32_t devices_per_rank = 1;
  /// The facts that were read from the file of another tool, and the assumptions that were made.
  std::vector<std::string> notes{};
  std::optional<Cluster> built{};  ///< the cluster of `shape` if it is already built (built_once())
};

/// Returns the spec with its groups of devices in the order `order` of the scenario's list. Returns a spec
/// without groups unchanged. Defined in load_device.cpp.
ClusterSpec with_group_order(ClusterSpec spec, GroupOrder order);

/// Returns the spec with its cluster already built, if the shape states the number of devices. A sweep then
/// does not build it for every point.
ClusterSpec built_once(ClusterSpec spec);

/// Returns the cluster for a program of `ranks` ranks. Device r runs rank r. Fails if there are fewer devices
/// than ranks; the message has both numbers. Also fails if the shape is wrong.
tl::expected<Cluster, std::string> build_cluster(const ClusterSpec& spec, std::int32_t ranks);

/// The optimizer. It determines the bytes of state per byte of fp32 weights: sgd 0, momentum 1, rmsprop 1,
/// adam 2.
enum class Optimizer : std::uint8_t { sgd, momentum, rmsprop, adam };
template <>
inline constexpr auto kEnumWords<Optimizer> =
    std::to_array<EnumWord<Optimizer>>({{Optimizer::sgd, "sgd"},
                                        {Optimizer::momentum, "momentum"},
                                        {Optimizer::rmsprop, "rmsprop"},
                                        {Optimizer::adam, "adam"}});

/// The precision of the model's values, and of the state that the optimizer stores for them.
enum class Precision : std::uint8_t {
  full,   // all values have one size, and the optimizer decides the state
  mixed,  // values have 2 bytes; the optimizer's copies of the weights and its state have 4 (ZeRO, SC'20,
          // section 3.1: with Adam 2 + 2 + 12 bytes a parameter)
  mixed_full_gradients,  // like `mixed`, but gradients have 4 bytes (Megatron-LM: 2 + 4 + 12)
};
template <>
inline constexpr auto kEnumWords<Precision> =
    std::to_array<EnumWord<Precision>>({{Precision::full, "full"},
                                        {Precision::mixed, "mixed"},
                                        {Precision::mixed_full_gradients, "mixed-full-gradients"}});

/// The rate at which devices fail, and the costs of failures and checkpoints.
struct FailureRates {
  Ns device_mtbf_ns = 0;        ///< > 0: the mean time between two failures of one device
  Ns save_ns = 60'000'000'000;  ///< >= 0: the time of one checkpoint, during which no work is done
  /// The time (>= 0) from a failure until work continues from the last checkpoint.
  Ns restart_ns = 300'000'000'000;
  std::optional<Ns> interval_ns{};  ///< > 0: the work between two checkpoints; absent: the best interval

  friend bool operator==(const FailureRates&, const FailureRates&) = default;
};

/// A scenario after all its parts were read. It has no generated program, no built cluster, and no model
/// that is cut into stages. A sweep can therefore change K, M and the schedule quickly.
struct Scenario {
  std::string file;  ///< the file of the scenario; empty if flags made it
  Model model;
  std::optional<NetworkSpec> network;
  /// The cluster. By default it has one device for each rank, unlimited memory, and links that take no time.
  ClusterSpec cluster;
  LaunchCost launch;  ///< the time that hosts need to launch kernels; default: 0
  HostLink host;      ///< the connection of each device to its host's memory; default: copies are free
  /// The name of a schedule; empty if none is given. Not used if `program` is set.
  std::string schedule = "gpipe";
  Shape shape;  ///< shape.microbatches follows from `batch` during preparation
  /// True if the user stated shape.virtual_stages. False if use_default_chunks() chose it.
  bool states_chunks = false;
  std::optional<Program> program;  ///< the program, if the schedule was given as a program file
  ChannelOptions channels;
  Batch batch;
  Partition partition;
  Optimizer optimizer = Optimizer::sgd;
  Precision precision = Precision::full;
  /// True if each stage stores, during the whole run, a copy of its weights for each version that it ever
  /// needs.
  bool clones_versions = false;
  std::optional<FailureRates> failures{};
  std::int64_t prompt_tokens = 0;  ///< the tokens of a sample, if the model states the chunks of a prompt
  std::vector<std::string> notes;  ///< the assumptions that were made during reading
};

/// Sets the number of chunks of each rank to the schedule's default, unless the scenario states this
/// number. Must be called after each change of the schedule's name.
void use_default_chunks(Scenario& scenario);

/// Returns true if each of the K * v stages takes the same time for every v, so that a larger v means more
/// work.
bool work_grows_with_chunks(const Scenario& scenario);

/// Returns true for the name of the preset of prefill: sequence-sliced 1F1B without backwards, whose slices
/// are the chunks of a prompt.
bool is_chunked_prefill(std::string_view schedule);

// The memory that training needs beside weights: gradients and optimizer state. It is used for models that
// state bytes and for models whose parameters are counted.

/// Returns the number of values that the optimizer stores for each weight: running means of its gradient or
/// of the gradient's square.
constexpr std::int32_t state_values(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
      return 0;
    case Optimizer::momentum:
    case Optimizer::rmsprop:
      return 1;
    case Optimizer::adam:
      return 2;
  }
  return 0;
}

/// The bytes of gradients and optimizer state for each byte of weights.
struct BytesPerWeightByte {
  std::int64_t gradients = 1;
  std::int64_t optimizer_state = 0;
};

/// Returns the bytes of gradients and optimizer state for each byte of weights. In full precision, all values
/// have equal size. Otherwise weights have 2 bytes, so each value of 4 bytes counts as 2 bytes per byte of
/// weights. Such values are the optimizer's values, its copy of the weights, and full gradients.
constexpr BytesPerWeightByte bytes_per_weight_byte(Optimizer optimizer, Precision precision) {
  const std::int64_t values = state_values(optimizer);
  switch (precision) {
    case Precision::full:
      return {.gradients = 1, .optimizer_state = values};
    case Precision::mixed:
      return {.gradients = 1, .optimizer_state = 2 * (values + 1)};
    case Precision::mixed_full_gradients:
      return {.gradients = 2, .optimizer_state = 2 * (values + 1)};
  }
  return {};
}

/// Returns the optimizer's bytes for each parameter of a model on named devices. They are a copy of the
/// parameter and the values of state_values(), with 4 bytes each.
constexpr std::int32_t optimizer_bytes(Optimizer optimizer) { return 4 * (1 + state_values(optimizer)); }

// Writes a scenario of layers, or parts of a scenario, as YAML that load.hpp can read. `penstock plan -o` and
// the backend's cost files use it.

/// Returns the text of a scenario file that describes the same experiment. Requires a model of layers, a
/// partition by cuts, and a named schedule with stages, replicas, routing and microbatches. `comment` becomes
/// comment lines at the top. Fails if the model does not consist of layers, or if the file cannot express the
/// cluster.
tl::expected<std::string, std::string> scenario_to_yaml(const Scenario& scenario, std::string_view comment);

/// Returns the YAML part "model:" with its stages, for microbatches of `batch` samples. Omits a list that
/// contains only zeros if zero is the default.
std::string stages_to_yaml(const StageFigures& figures, std::int64_t batch);

/// Returns "cluster:" with its preset, or with its devices and links. Fails if devices reserve different
/// bytes, or if the name of a switch cannot be derived from the names of links.
tl::expected<std::string, std::string> cluster_to_yaml(const ClusterSpec& cluster);

/// Returns `text` as a YAML scalar. The scalar is in quotes unless YAML can only read it as a name
/// ("Conv2d-4").
std::string scalar_to_yaml(std::string_view text);

/// Returns `text` as comment lines of YAML. Control characters become '?', because comments cannot contain
/// them.
std::string comment_to_yaml(std::string_view text);

}  // namespace penstock
