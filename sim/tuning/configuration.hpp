#pragma once
// One way to train a model on a cluster, and the question which is best.

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

/// A point of the space that is searched. In the order in which ties are broken.
struct Configuration {
  std::int32_t nodes = 1;
  std::int32_t tensor = 1;
  std::int32_t context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  std::int32_t expert = 1;
  std::int32_t data = 1;               ///< copies of the pipeline
  std::int32_t stages = 1;             ///< ranks of one pipeline
  std::int32_t virtual_stages = 1;     ///< model stages a rank
  std::string_view schedule = "1f1b";  ///< as the table of schedules spells it
  std::size_t layer_split = 0;         ///< index into TuneRequest::layer_splits
  std::int32_t micro_batch_size = 1;
  std::int32_t microbatches = 1;  ///< of one copy of the pipeline
  LayerRecompute recompute = LayerRecompute::none;
  std::int32_t sharding = 0;  ///< ZeRO stage over the copies of each weight

  friend auto operator<=>(const Configuration&, const Configuration&) = default;
};

/// A framework that runs what is found (launchers.hpp).
enum class Launcher : std::uint8_t { megatron, torchtitan };
template <>
inline constexpr auto kEnumWords<Launcher> = std::to_array<EnumWord<Launcher>>(
    {{Launcher::megatron, "megatron"}, {Launcher::torchtitan, "torchtitan"}});

/// What a choice may be; empty: everything that the rules of the space allow.
struct TuneChoices {
  std::vector<std::int32_t> tensor{};
  std::vector<std::int32_t> context{};
  std::vector<ContextExchange> context_exchange{};
  std::vector<std::int32_t> expert{};
  std::vector<std::int32_t> data{};
  std::vector<std::int32_t> stages{};
  std::vector<std::int32_t> virtual_stages{};
  std::vector<std::int32_t> micro_batch_size{};
  std::vector<LayerRecompute> recompute{};
  std::vector<std::int32_t> sharding{};
};

/// The schedules that are tried unless others are named.
std::vector<std::string> default_tuned_schedules();
/// Returns the layouts that are tried unless others are given: even, ends-one-less, balanced.
std::vector<LayerSplit> default_layer_splits();

/// A model, its devices and its batch, and what may be chosen.
struct TuneRequest {
  /// A DeviceModel on named devices; its degrees, schedule, batch and iterations are not looked at.
  Scenario base;
  std::int64_t global_batch_size = 1;
  std::vector<std::int32_t> nodes{};  ///< of the cluster, each to be tried; empty: all that it has
  std::vector<std::string> schedules = default_tuned_schedules();
  std::vector<LayerSplit> layer_splits = default_layer_splits();
  TuneChoices choices{};
  std::optional<Launcher> launcher{};  ///< what it cannot run as it is priced is not in the space
};

/// The model, its training and its devices. Requires a request that tuning_space() takes.
const DeviceModel& model_of(const TuneRequest& request);

/// Returns the request with the layout of the configuration spelled out as `layers`, by stage, where it is
/// balanced by price: what scenario_of() and overrides_of() then make of the configuration has these layers.
TuneRequest with_layers(TuneRequest request, const Configuration& configuration,
                        const std::vector<std::int64_t>& layers);

/// Devices that the configuration occupies.
std::int64_t device_count(const Configuration& configuration);

/// Puts what the configuration chooses into a workload: degrees, sharding, ranks, microbatch, recomputation.
void set_choices(Workload& work, const Configuration& configuration);

/// What the configuration is in a scenario file over the request's: edited_scenario() with it reads back as
/// scenario_of().
std::vector<Override> overrides_of(const TuneRequest& request, const Configuration& configuration);

/// The scenario that simulate() and a run take, of one iteration. Requires a configuration of the request's
/// space.
Scenario scenario_of(const TuneRequest& request, const Configuration& configuration);

}  // namespace penstock
