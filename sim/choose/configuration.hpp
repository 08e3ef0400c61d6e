#pragma once
// A configuration is one set of degrees, schedule and batch sizes with which a model can be trained on a
// cluster. A TuneRequest describes the space in which the best configuration is searched.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/scenario.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// A point of the search space. The comparison operator compares the members in the order of their
/// declaration. The search uses it to choose between two points with equal figures.
struct Configuration {
  std::int32_t nodes = 1;  ///< number of nodes of all groups
  std::int32_t tensor = 1;
  std::int32_t context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  std::int32_t expert = 1;
  std::int32_t data = 1;  ///< number of copies of the pipeline
  PlacementOrder order = PlacementOrder::tp_cp_ep_dp_pp;
  /// The order in which the ranks go through the groups of unlike devices, if the cluster has several.
  GroupOrder group_order = GroupOrder::stated;
  std::int32_t stages = 1;             ///< number of ranks of one pipeline
  std::int32_t virtual_stages = 1;     ///< number of model stages on each rank
  std::string_view schedule = "1f1b";  ///< name of a schedule in the table of schedules
  std::size_t layer_split = 0;         ///< index into TuneRequest::layer_splits
  std::int32_t micro_batch_size = 1;
  std::int32_t microbatches = 1;  ///< number of microbatches of one copy of the pipeline
  LayerRecompute recompute = LayerRecompute::none;
  std::int32_t sharding = 0;  ///< ZeRO stage, applied over the copies of each weight
  std::int32_t offload = 0;   ///< percentage of each rank's activations that wait in its host's memory

  friend auto operator<=>(const Configuration&, const Configuration&) = default;
};

/// A framework that can run a configuration (launchers.hpp).
enum class Launcher : std::uint8_t { megatron, torchtitan };
template <>
inline constexpr auto kEnumWords<Launcher> = std::to_array<EnumWord<Launcher>>(
    {{Launcher::megatron, "megatron"}, {Launcher::torchtitan, "torchtitan"}});

/// The allowed values of each choice. An empty list allows all values that the rules of the space allow.
struct TuneChoices {
  std::vector<std::int32_t> tensor{};
  std::vector<std::int32_t> context{};
  std::vector<ContextExchange> context_exchange{};
  std::vector<std::int32_t> expert{};
  std::vector<std::int32_t> data{};
  std::vector<PlacementOrder> order{};
  std::vector<GroupOrder> group_order{};
  std::vector<std::int32_t> stages{};
  std::vector<std::int32_t> virtual_stages{};
  std::vector<std::int32_t> micro_batch_size{};
  std::vector<LayerRecompute> recompute{};
  std::vector<std::int32_t> sharding{};
  /// The percentages of offloaded activations. Values other than 0 require a connection of devices to their
  /// hosts (Scenario::host).
  std::vector<std::int32_t> offload{};
};

/// Returns the schedules that a search tries for every model if the user names none.
std::vector<std::string> default_tuned_schedules();
/// Returns the schedules that a search tries for this model if the user names none. If the output layer is as
/// large as several layers, they contain the schedules that divide it over all ranks.
std::vector<std::string> default_tuned_schedules(const Architecture& model);
/// Returns the layer splits that a search tries if the user names none: even, ends-one-less, balanced.
std::vector<LayerSplit> default_layer_splits();

/// The task of a search: a model, its devices, its batch, and the allowed choices.
struct TuneRequest {
  /// The scenario with the model on named devices. The search replaces its degrees, schedule, batch and
  /// iterations.
  Scenario base;
  std::int64_t global_batch_size = 1;
  std::vector<std::int32_t> nodes{};  ///< numbers of nodes to try; if empty, all nodes of the cluster
  std::vector<std::string> schedules = default_tuned_schedules();
  std::vector<LayerSplit> layer_splits = default_layer_splits();
  TuneChoices choices{};
  /// The launcher that must be able to run each configuration of the search space exactly as predicted. If
  /// it is absent, the space is not restricted.
  std::optional<Launcher> launcher{};
};

/// Returns the model of the request, with the settings of its training and its devices. Requires a request
/// that tuning_space() accepts.
const DeviceModel& model_of(const TuneRequest& request);

/// Returns the request with the numbers `layers` in place of the configuration's balanced layer split.
/// `layers` has the number of layers of each stage. scenario_of() and overrides_of() then use these numbers.
/// Returns the request unchanged if the split is not a balanced one.
TuneRequest with_layers(TuneRequest request, const Configuration& configuration,
                        const std::vector<std::int64_t>& layers);

/// Returns the number of devices that the configuration uses.
std::int64_t device_count(const Configuration& configuration);

/// Sets the configuration's degrees, sharding, ranks, microbatch size and recomputation in a workload. The
/// devices stay as they are (choose_devices()).
void set_choices(Workload& work, const Configuration& configuration);

/// Returns a recomputation as a user writes it in `training.recompute`. If the request's scenario recomputes
/// a part of the layers in full, `full` means this part: "{full: 3}".
std::string recompute_text(const TuneRequest& request, LayerRecompute recompute);
/// Returns the kinds of devices of the request in the order of a configuration's ranks. Returns an empty list
/// if all devices are of one kind.
std::vector<DeviceKind> kinds_in_order(const TuneRequest& request, GroupOrder order);
/// Assigns the devices of the request to the ranks of a workload that has the configuration's choices.
/// Changes nothing if all devices are of one kind. Returns the error of place_kinds().
std::optional<std::string> choose_devices(Workload& work, const TuneRequest& request,
                                          const Configuration& configuration);
/// Returns the bytes that a configuration may use of the largest kind of device, or the largest `Bytes` if no
/// kind has a limit.
Bytes usable_of(const TuneRequest& request);
/// Returns the bytes by which the usable memory of a device is smaller than `largest`, the result of
/// usable_of(). If the device has no limit and others have one, the result is far below 0.
Bytes smaller_by(const DeviceType& device, Bytes largest);
/// Returns true if the search may offload activations to hosts. This is the case if the scenario states the
/// connection of devices to their hosts.
bool may_offload(const TuneRequest& request);
/// Returns the percentage of offloaded activations as scenarios state it: none, or a share such as 0.5.
std::string offload_text(std::int32_t percentage);
/// Returns the names of the request's devices with their numbers, such as "16 x h100-sxm + 32 x a100-sxm".
/// `devices` is the number of devices of a request with devices of one kind.
std::string devices_text(const TuneRequest& request, std::int64_t devices);

/// Returns the keys and values by which the configuration's scenario differs from the request's scenario,
/// as a user would write them. edited_scenario() with these overrides gives the same scenario as
/// scenario_of().
std::vector<Override> overrides_of(const TuneRequest& request, const Configuration& configuration);

/// Returns the scenario of a configuration, with one iteration. The configuration must be in the search
/// space of the request.
Scenario scenario_of(const TuneRequest& request, const Configuration& configuration);

/// The names of the choices of a Configuration, as users see them. A choice is a setting for which the
/// search tries several values.
inline constexpr std::array<std::string_view, 15> kChoices = {
    "tensor",      "context",          "context_exchange", "expert",         "data",
    "order",       "group_order",      "stages",           "virtual_stages", "schedule",
    "layer_split", "micro_batch_size", "recompute",        "sharding",       "offload"};

/// The values of a configuration as texts, one for each choice in kChoices.
using ChoiceTexts = std::array<std::string, kChoices.size()>;
ChoiceTexts choice_texts(const TuneRequest& request, const Configuration& of);

/// The values of a configuration as numbers, one for each choice in kChoices. If a value comes before another
/// one, its number is smaller.
using ChoiceCodes = std::array<std::int64_t, kChoices.size()>;
ChoiceCodes choice_codes(const Configuration& of);

/// A numbering of the values of each choice, from 0 on, in the order in which they first appear. A
/// configuration has one number for each choice.
class ValueNumbers {
 public:
  using Numbers = std::array<std::uint16_t, kChoices.size()>;

  Numbers of(const Configuration& configuration);
  std::size_t count() const { return count_; }

 private:
  std::array<std::map<std::int64_t, std::uint16_t>, kChoices.size()> known_;
  std::size_t count_ = 0;
};

/// The configurations of one schedule that the search leaves out, because they cannot run with the
/// scenario's settings. One entry counts those with the same kind of reason.
struct LeftOut {
  std::string schedule;
  std::size_t configurations = 0;
  std::string reason;  ///< the reason for the first one: "zb-v with 4 stages and 32 microbatches hangs .."
  /// True if the programs hang with the scenario's channels. False if the schedule refuses an option.
  bool hangs = false;
};

/// Counts one more configuration in the entry for this schedule and kind of reason. Adds the entry if it does
/// not exist.
inline void add_left_out(std::vector<LeftOut>& all, std::string_view schedule, const std::string& reason,
                         bool hangs) {
  for (LeftOut& known : all) {
    if (known.schedule != schedule || known.hangs != hangs) continue;
    ++known.configurations;
    return;
  }
  all.push_back({.schedule = std::string(schedule), .configurations = 1, .reason = reason, .hangs = hangs});
}

}  // namespace penstock
