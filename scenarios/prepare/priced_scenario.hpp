#pragma once
// Computes the costs of stages if the model does not state them. The result is a scenario with the costs of
// each stage. The costs of a transformer on named devices come from kernels. Fitted costs come from measured
// iterations.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/extra_stages.hpp"

namespace penstock {

// --- settled scenario ------------------------------------------------------------------------------------

/// A scenario in which all costs are stated. Its model is unit costs, stages, or layers with stated cuts.
/// Costs that the original scenario did not state have been computed.
struct SettledScenario {
  Scenario scenario;                      ///< the scenario of one copy of the pipeline
  std::int32_t copies = 1;                ///< the number of copies of the pipeline
  std::optional<TrainedModel> trained{};  ///< present if the model is on named devices
};

/// Returns the copy as a scenario in which all costs are stated. Computes the costs of the stages if the
/// model is on named devices or has fitted costs. Returns other models unchanged. Requires `placed` =
/// placed_stages(in_force.schedule), possibly with loops instead of lists. Fails if device_prices() or
/// fitted_prices() fails.
tl::expected<SettledScenario, std::string> settle(OneCopy copy, const ScheduleInForce& in_force,
                                                  const Program& placed);

// --- device figures --------------------------------------------------------------------------------------

/// Returns stage figures that are equal to the costs in `costs`. `overhead_ns` is the part of each F, B, I
/// and W that is an overhead. Requires that the stages form a chain.
StageFigures figures_of_stages(const CostTable& costs, Ns overhead_ns);

// --- device notes ----------------------------------------------------------------------------------------

/// Returns the notes for the user about a model on named devices, one for each subject. They name the
/// devices, the degrees of parallelism, and the sources of the costs. If the split is balanced, they name
/// the layers of each stage. They also name each term of the costs that kernels do not explain. `has_pairs`
/// is true if the schedule has overlapped pairs of F and B. Requires a workload with all degrees set.
std::vector<std::string> device_notes(const Workload& work, const LayerSplit& split,
                                      std::span<const std::int64_t> layers, bool has_pairs);

// --- device prices ---------------------------------------------------------------------------------------

/// The costs of one copy of the pipeline, as a scenario of stages. All copies have equal costs.
struct DevicePrices {
  SettledScenario settled;
  Workload work;  ///< the workload; its degrees of parallelism and microbatch size are set
  std::shared_ptr<const KernelTables> kernels;
  std::vector<std::int64_t> layers;         ///< the number of layers of each model stage
  std::vector<std::int32_t> rank_of_stage;  ///< the rank of each model stage
  std::int64_t microbatches = 1;            ///< the number of microbatches of one copy
  /// The stages that the schedule adds to the stages with layers, such as parts of the output layer.
  ExtraStages extra = ExtraStages::none;
};

/// Returns the costs of one copy. `placed` must be the copy's program, in which the schedule in force has
/// placed the stages on ranks. Fails if the layers cannot be divided among the stages, or if times or bytes
/// exceed 64 bits.
tl::expected<DevicePrices, std::string> device_prices(OneCopy copy, const ScheduleInForce& in_force,
                                                      const Program& placed);
/// Prepares a scenario and returns the costs of one pipeline copy. Requires a model on named devices. Returns
/// an error if a size (degree, layers, heads, experts, sequence, batch) cannot be divided as required. Also
/// returns an error if the cluster has too few devices, if the devices lack the precision, or if the schedule
/// itself makes copies.
tl::expected<DevicePrices, std::string> price_on_devices(const Scenario& scenario);

/// Recomputes the times in `costs` with the device constants in `work`. Except for these constants, `work`
/// must equal the workload of `prices`. Requires a program whose stages form a chain.
void set_times(CostTable& costs, const DevicePrices& prices, const Workload& work);

// --- fitted figures --------------------------------------------------------------------------------------

/// Returns the figures of the stages for the microbatch size of `model`. They need no scaling.
StageFigures fitted_figures(const FittedModel& model, const std::vector<FittedStage>& stages);

std::string fit_note(const FittedModel& model);

// --- fitted prices ---------------------------------------------------------------------------------------

/// Returns one pipeline copy of a model with fitted costs, as a scenario of stages. All copies have equal
/// costs. `placed` must be the copy's program, in which the schedule has placed the stages on ranks. Fails if
/// the layers cannot be divided among the stages, or if a kind of layer has no fitted costs.
tl::expected<SettledScenario, std::string> fitted_prices(OneCopy copy, const ScheduleInForce& in_force,
                                                         const Program& placed);

}  // namespace penstock
