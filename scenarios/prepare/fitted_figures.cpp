// A third of a microbatch's time is its forward pass: each product of it has two in the backward pass. An
// activation is a value of two bytes for each token and hidden dimension.

#include "scenarios/prepare/fitted_figures.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/fitted_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/fitted_stages.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
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
  // A file's sizes make more than 64 bits count; byte_fault() then says so.
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

}  // namespace penstock
