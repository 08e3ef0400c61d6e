#pragma once
// The schema of a scenario, with one function for each part. Each function reads its part of a resolved
// document and notes errors in a Problem. load.cpp combines the results.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "text/enum_words.hpp"

namespace penstock {

/// The content of the scenario's key `model`. load_model.cpp reads it.
struct ModelPart {
  Model model;
  std::optional<NetworkSpec> network{};
  std::optional<std::int64_t> batch{};  ///< the samples for which the model's times and bytes hold
  std::int32_t devices_per_rank = 1;
  Precision precision = Precision::full;           ///< applies if `training` does not state it
  std::optional<ArchitecturePart> architecture{};  ///< present if the model is on named devices
  std::vector<std::string> notes{};                ///< the assumptions about the model
  std::optional<ChunkModel> chunks{};              ///< present if the model states the chunks of a prompt
};
/// Reads `model.chunks`. Defined in load_transformer.cpp.
ChunkModel read_chunks(const Node& node, Problem& problem);
/// Returns the keys of `model.chunks`.
KeyGroup chunk_keys();

/// Reads the scenario's key `model`. The peak rate of a transformer's devices comes from `cluster`.
ModelPart read_model(const Node& node, const ClusterSpec& cluster, Problem& problem);

/// Each of the seven functions below returns the keys of one mapping of a scenario, such as `model`. It is
/// defined in the file that reads this mapping.
std::vector<KeyGroup> model_keys();
std::vector<KeyGroup> cluster_keys();
std::vector<KeyGroup> device_cluster_keys();
KeyGroup machine_cluster_keys();
std::vector<KeyGroup> parallel_keys();
std::vector<KeyGroup> schedule_keys();
std::vector<KeyGroup> training_keys();

/// Reads `cluster:`. Defined in load_cluster.cpp.
ClusterSpec read_cluster(const Node& node, Problem& problem);
/// Reads `cluster: {device: ..}`. Defined in load_device.cpp.
ClusterSpec read_device_cluster(const Node& node, Problem& problem);
/// Reads `cluster: {groups: [..]}`. Defined in load_device.cpp.
ClusterSpec read_grouped_cluster(const Node& node, Problem& problem);
/// Reads `cluster: {machine: FILE, ..}`. Defined in load_machine.cpp.
ClusterSpec read_machine_cluster(const Node& node, Problem& problem);
/// Returns the same cluster as read_machine_cluster(), for a file whose name and text the caller has.
ClusterSpec machine_cluster(const Node& node, const std::string& file, const std::string& text,
                            Problem& problem);
/// Reads the price of a device for an hour, such as `price: 2.5`. Defined in load_cluster.cpp.
std::optional<double> read_price(const MappingReader& reader);
/// Reads the key `reserve`: the bytes of each device that plans must leave free. Returns nothing if the key
/// is absent. Records a problem if the value exceeds the device's memory.
std::optional<std::int64_t> read_reserve(const MappingReader& reader,
                                         std::optional<std::int64_t> memory_bytes);

/// Reads `host:`. Defined in load_training.cpp.
LaunchCost read_host(const Node& node, Problem& problem);

/// The key of `cluster:` with the connection of each device to the memory of its host, in all of its forms.
inline constexpr Key kHostLinkKey{
    .name = "host",
    .kind = KeyKind::mapping,
    .meaning = "The connection of each device to the memory of its host, for OFFLOAD and RELOAD.",
    .usual = "copies are free"};
/// Reads `host` of the mapping `cluster`, if it is there.
HostLink read_host_link(const Node& cluster, Problem& problem);

/// The content of the scenario's key `parallel`. load_device.cpp reads it.
struct ParallelPart {
  Parallel degrees;  ///< `data` is 1 if it is not stated
  std::optional<std::int32_t> data{};
  std::optional<bool> distributed_optimizer{};
  std::optional<Gather> gather{};
  bool states_order = false;
  std::string place;  ///< the place of `parallel` in the file, for messages; empty if it is absent
};
ParallelPart read_parallel(const Node& node, Problem& problem);

/// The content of the scenario's key `schedule`. load_schedule.cpp reads it.
struct SchedulePart {
  std::string name;  ///< empty if none is given
  std::optional<std::int32_t> stages;
  std::optional<std::int64_t> microbatches;
  Shape shape;
  std::optional<Program> program;
  ChannelOptions channels;
  std::optional<LayerSplit> layer_split{};
  std::vector<std::string> notes{};  ///< notes on the corrections that were made to the program file
  bool states_chunks = false;        ///< true if virtual_stages is stated
  bool states_slices = false;        ///< true if `slices` is stated
  std::optional<SliceSizes> slice_tokens{};
};
SchedulePart read_schedule(const Node& node, Problem& problem);
/// Removes the keys of a file's schedule that a program replaces: its name and its shape. Keys that may
/// stand beside `program` stay, and so do keys of --set.
void remove_replaced_keys(Node& schedule);

/// Reads the scenario's key `partition`. Its cuts may be names of layers of `model`. Defined in
/// load_training.cpp.
Partition read_partition(const Node& node, const Model& model, Problem& problem);

/// The content of the scenario's key `training`. load_training.cpp reads it.
struct TrainingPart {
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int32_t> iterations;
  std::optional<Optimizer> optimizer{};
  std::optional<Precision> precision{};
  std::optional<bool> clones_versions{};
  std::optional<GemmPrecision> device_precision{};  ///< one of bf16, fp8 and fp4
  std::optional<LayerRecompute> recompute{};
  /// The layers that recompute everything, if only some do (LayerRecompute::full).
  RecomputedLayers recomputed_layers{};
  /// The number of tokens of a sample for each microbatch. Empty if the scenario does not state it for each
  /// microbatch.
  std::vector<std::int64_t> sequences{};
  std::optional<std::int32_t> gradient_bytes{};  ///< bytes of a parameter's gradient, 2 or 4
  std::optional<bool> deferred_head{};  ///< true to compute the head's weight gradient at the end of the step
  std::optional<double> expert_factor{};  ///< the time of experts' layers over the time of their kernels
  std::optional<Ns> expert_layer_ns{};    ///< the time of a layer of experts beyond the known terms
  /// Least time on the host in which a layer's forward and backward passes are launched.
  std::optional<Ns> host_layer_ns{};
  std::optional<Framework> framework{};
  std::optional<Ns> action_overhead_ns{};  ///< the time of each F, B, I and W beside its kernels
  std::optional<Ns> step_overhead_ns{};    ///< the time of each training step that no other cost covers
  std::optional<FailureRates> failures{};
};
TrainingPart read_training(const Node& node, Problem& problem);

/// The values of those top-level keys of a scenario from which a model on named devices is made.
struct DeviceModelParts {
  const ModelPart& model;
  const ClusterSpec& cluster;
  const ParallelPart& parallel;
  const SchedulePart& schedule;
  const TrainingPart& training;
};
/// Returns the model on named devices, or nothing if the scenario has no such model. Notes problems in
/// `document`: missing keys, and keys that only such a model may have. Defined in load_device.cpp.
std::optional<DeviceModel> device_model_of(const Node& document, const DeviceModelParts& parts,
                                           Problem& problem);

// A table of fields. Each field connects a key of a mapping to the member that receives its value. The
// load_*.cpp files use it for all keys whose value is stored unchanged.
//
//   constexpr auto kHostFields = std::to_array<Field<LaunchCost>>({
//       field<&LaunchCost::overhead_ns>({.name = "launch_overhead", .kind = KeyKind::duration, ..}),
//       ..});
//   read_fields(reader, kHostFields, launch);

/// An entry in a table of keys.
template <typename Target>
struct Field {
  Key key;
  /// The function that reads the key's value into the member. It is null for keys that have no member and
  /// are read by other code.
  void (*read)(const MappingReader& reader, const Key& key, Target& target) = nullptr;
};

/// The class and the value type of a pointer to a member.
template <typename Member>
struct MemberTypes;
template <typename Owner, typename Type>
struct MemberTypes<Type Owner::*> {
  using Class = Owner;
  using Value = Type;
};

template <typename Value>
struct OptionalTypes {
  using Inner = Value;
};
template <typename Value>
struct OptionalTypes<std::optional<Value>> {
  using Inner = Value;
};

/// Returns the value of a key, converted to the type of the key's member. Returns nothing if the key is
/// absent or its value is wrong.
template <typename Value>
std::optional<Value> value_of_key(const MappingReader& reader, const Key& key) {
  if constexpr (std::same_as<Value, bool>) {
    return reader.flag(key.name);
  } else if constexpr (EnumWithWords<Value>) {
    return reader.choice<Value>(key.name);
  } else if constexpr (std::same_as<Value, std::string>) {
    return reader.word(key.name);
  } else if constexpr (std::same_as<Value, PerStage<std::int64_t>>) {
    return reader.has(key.name) ? std::optional(reader.figures(key)) : std::nullopt;
  } else if constexpr (std::same_as<Value, std::vector<std::int64_t>>) {
    return reader.has(key.name) ? std::optional(reader.figures(key).values) : std::nullopt;
  } else if constexpr (std::same_as<Value, std::vector<std::int32_t>>) {
    return reader.has(key.name) ? std::optional(reader.integers(key.name, key.range)) : std::nullopt;
  } else if constexpr (std::same_as<Value, double>) {
    return reader.real(key);
  } else {
    static_assert(std::integral<Value>);
    const auto whole = reader.whole(key);
    return whole ? std::optional(static_cast<Value>(*whole)) : std::nullopt;
  }
}

/// Returns an entry for a key whose value is stored in a member. `members` is the path to the member, such
/// as <&Partition::plan, &PlanOptions::form>.
template <auto... members>
consteval auto field(Key key) {
  using Members = std::tuple<decltype(members)...>;
  using Target = typename MemberTypes<std::tuple_element_t<0, Members>>::Class;
  using Stored = typename MemberTypes<std::tuple_element_t<sizeof...(members) - 1, Members>>::Value;
  using Value = typename OptionalTypes<Stored>::Inner;
  if constexpr (EnumWithWords<Value>) {
    if (key.words.empty()) key.words = words_of<Value>();
  }
  const auto read = [](const MappingReader& reader, const Key& row, Target& target) {
    auto& member = (target.*....*members);
    if constexpr (std::same_as<Stored, std::optional<std::int64_t>>) {
      // The value "unlimited" is stored as an absent limit. An absent key must not change the member, so
      // has() is asked first.
      if (row.kind == KeyKind::limit && reader.has(row.name)) {
        member = reader.limit(row.name);
        return;
      }
    }
    const std::optional<Value> value = value_of_key<Value>(reader, row);
    if (!value) return;
    if constexpr (std::same_as<Stored, Value>) {
      member = *value;
    } else {
      member = value;
    }
  };
  return Field<Target>{.key = key, .read = read};
}

/// Returns an entry for a key that has no member and is read by other code.
template <typename Target>
consteval Field<Target> unbound(Key key) {
  return {.key = key};
}

/// Reads all keys that have a member. If a key is absent or its value is wrong, its member does not change.
template <typename Target, std::size_t count>
void read_fields(const MappingReader& reader, const std::array<Field<Target>, count>& fields,
                 Target& target) {
  for (const Field<Target>& row : fields) {
    if (row.read != nullptr) row.read(reader, row.key, target);
  }
}

/// Returns the keys of a table whose entries say which key is stored in which member.
template <typename Target, std::size_t count>
constexpr std::array<Key, count> keys_of(const std::array<Field<Target>, count>& fields) {
  std::array<Key, count> keys{};
  std::ranges::transform(fields, keys.begin(), &Field<Target>::key);
  return keys;
}

}  // namespace penstock
