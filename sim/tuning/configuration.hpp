#pragma once
// A configuration: one set of degrees, schedule and batch sizes with which a model can be trained on a
// cluster. A TuneRequest asks which is best.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/override.hpp"
#include "scenarios/read/scenario.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// A point of the space that is searched. Ties are broken in the order of the members.
struct Configuration {
  std::int32_t nodes = 1;
  std::int32_t tensor = 1;
  std::int32_t context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  std::int32_t expert = 1;
  std::int32_t data = 1;  ///< number of copies of the pipeline
  PlacementOrder order = PlacementOrder::tp_cp_ep_dp_pp;
  std::int32_t stages = 1;             ///< number of ranks of one pipeline
  std::int32_t virtual_stages = 1;     ///< model stages of each rank
  std::string_view schedule = "1f1b";  ///< name in the table of schedules
  std::size_t layer_split = 0;         ///< index into TuneRequest::layer_splits
  std::int32_t micro_batch_size = 1;
  std::int32_t microbatches = 1;  ///< microbatches of one copy of the pipeline
  LayerRecompute recompute = LayerRecompute::none;
  std::int32_t sharding = 0;  ///< ZeRO stage over the copies of each weight

  friend auto operator<=>(const Configuration&, const Configuration&) = default;
};

/// A framework that can run a configuration (launchers.hpp).
enum class Launcher : std::uint8_t { megatron, torchtitan };
template <>
inline constexpr auto kEnumWords<Launcher> = std::to_array<EnumWord<Launcher>>(
    {{Launcher::megatron, "megatron"}, {Launcher::torchtitan, "torchtitan"}});

/// The allowed values of each choice. An empty list allows everything that the rules of the space allow.
struct TuneChoices {
  std::vector<std::int32_t> tensor{};
  std::vector<std::int32_t> context{};
  std::vector<ContextExchange> context_exchange{};
  std::vector<std::int32_t> expert{};
  std::vector<std::int32_t> data{};
  std::vector<PlacementOrder> order{};
  std::vector<std::int32_t> stages{};
  std::vector<std::int32_t> virtual_stages{};
  std::vector<std::int32_t> micro_batch_size{};
  std::vector<LayerRecompute> recompute{};
  std::vector<std::int32_t> sharding{};
};

/// Returns the schedules that are tried if the request names none.
std::vector<std::string> default_tuned_schedules();
/// Returns the layouts that are tried if the request names none: even, ends-one-less, balanced.
std::vector<LayerSplit> default_layer_splits();

/// A model, its devices and its batch, and the allowed choices.
struct TuneRequest {
  /// A scenario with a DeviceModel on named devices. Its degrees, schedule, batch and iterations are not
  /// used.
  Scenario base;
  std::int64_t global_batch_size = 1;
  std::vector<std::int32_t> nodes{};  ///< numbers of nodes to be tried; empty: all nodes of the cluster
  std::vector<std::string> schedules = default_tuned_schedules();
  std::vector<LayerSplit> layer_splits = default_layer_splits();
  TuneChoices choices{};
  /// If present, the space has only what this launcher can run as it is priced.
  std::optional<Launcher> launcher{};
};

/// Returns the model with its training and its devices. Requires a request that tuning_space() accepts.
const DeviceModel& model_of(const TuneRequest& request);

/// Returns the request with the configuration's layout written out as `layers`, one count a stage, if it is
/// balanced by price. scenario_of() and overrides_of() then give the configuration these layers.
TuneRequest with_layers(TuneRequest request, const Configuration& configuration,
                        const std::vector<std::int64_t>& layers);

/// Returns the number of devices that the configuration uses.
std::int64_t device_count(const Configuration& configuration);

/// Writes the configuration's choices into a workload: degrees, sharding, ranks, microbatch and
/// recomputation.
void set_choices(Workload& work, const Configuration& configuration);

/// Returns the values that describe the configuration in a scenario file, on top of the request's scenario.
/// edited_scenario() with them reads back as scenario_of().
std::vector<Override> overrides_of(const TuneRequest& request, const Configuration& configuration);

/// Returns the scenario that simulate() and a run take, with one iteration. Requires a configuration of the
/// request's space.
Scenario scenario_of(const TuneRequest& request, const Configuration& configuration);

}  // namespace penstock
