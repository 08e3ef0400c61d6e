// Prices one copy of the pipeline, which represents all copies, as on named devices (device_prices.cpp). The
// fitted step contains the communication between copies.

#include "scenarios/prepare/fitted_prices.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/fitted_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/one_copy.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/settle.hpp"
#include "scenarios/pricing/fitted_stages.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

// --- fitted figures --------------------------------------------------------------------------------------
//
// The forward pass takes a third of a microbatch's time, because each of its products has two in the backward
// pass. An activation has two bytes for each token and hidden dimension.

namespace {

constexpr std::int64_t kForwardPart = 3;
constexpr std::int64_t kBytesOfActivation = 2;

}  // namespace

StageFigures fitted_figures(const FittedModel& model, const std::vector<FittedStage>& stages) {
  const std::string place = "model.fitted";
  StageFigures figures;
  figures.forward = {.values = {}, .is_list = true, .place = place};
  figures.backward = figures.forward;
  figures.step = figures.forward;
  for (const FittedStage& stage : stages) {
    const std::int64_t forward_ns = stage.microbatch_ns / kForwardPart;
    figures.forward.values.push_back(forward_ns);
    figures.backward.values.push_back(stage.microbatch_ns - forward_ns);
    figures.step.values.push_back(stage.step_ns);
  }
  // The product may exceed 64 bits. Then the largest value is used, and byte_fault() reports it.
  const Wide activation = static_cast<Wide>(kBytesOfActivation) * model.kind.micro_batch_size *
                          model.kind.sequence * model.kind.hidden;
  figures.activation = {.values = {saturated(activation)}, .is_list = false, .place = place};
  return figures;
}

std::string fit_note(const FittedModel& model) {
  return fmt::format(
      "costs fitted on {}: {} layers of {}, data {}; a third of a microbatch is forward, the last stage has "
      "the head; of memory they say nothing",
      model.costs->source, model.layers, to_text(model.kind), model.copies);
}

// --- fitted prices ---------------------------------------------------------------------------------------

tl::expected<SettledScenario, std::string> fitted_prices(OneCopy copy, const ScheduleInForce& in_force,
                                                         const Program& placed) {
  auto model = std::get<FittedModel>(copy.scenario.model);
  model.kind.micro_batch_size = in_force.batch.micro_batch_size;
  // Layers are divided evenly, because costs were fitted for layers of one kind. schedule.layer_split applies
  // only to models on devices.
  const std::int32_t count = placed.stage_count();
  if (model.layers % count != 0) {
    return tl::unexpected(
        fmt::format("{} layers do not divide over {} stages; choose other stages or virtual stages",
                    model.layers, count));
  }
  const std::vector<std::int64_t> layers(static_cast<std::size_t>(count), model.layers / count);
  const std::vector<std::int32_t> ranks = placed.placement.ranks_of_stages();
  const auto stages = fitted_stages(
      *model.costs, {.kind = model.kind, .copies = model.copies, .layers = layers, .rank_of_stage = ranks});
  if (!stages) return tl::unexpected("model.fitted: " + stages.error());
  Scenario priced = std::move(copy.scenario);
  priced.model = fitted_figures(model, *stages);
  priced.batch = in_force.stated;
  priced.batch.own_micro_batch_size = in_force.batch.micro_batch_size;
  priced.notes.push_back(fit_note(model));
  return SettledScenario{.scenario = std::move(priced), .copies = model.copies};
}

}  // namespace penstock
