#pragma once
// Divides a predicted step into parts. For each part, it finds the factor on this part that would explain
// the error of the prediction.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sim/hold/predicted_runs.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The parts of a training step, as the rank that computes longest spends it.
enum class StepPart : std::uint8_t {
  products,     // matrix products, also those that are computed again
  attention,    // fused attention
  memory,       // norms, activations, casts and other kernels that memory limits
  collectives,  // transfers in tensor, context and expert groups that nothing hides
  reduction,    // transfers between copies that nothing hides: gradients, and weights with ZeRO
  bubble,       // waiting for other stages, if messages took no time
  optimizer,    // the update of the weights
  rest,         // the host, time beside the kernels of actions, messages between stages, unexplained time
};
template <>
inline constexpr auto kEnumWords<StepPart> =
    std::to_array<EnumWord<StepPart>>({{StepPart::products, "products"},
                                       {StepPart::attention, "attention"},
                                       {StepPart::memory, "memory"},
                                       {StepPart::collectives, "collectives"},
                                       {StepPart::reduction, "reduction"},
                                       {StepPart::bubble, "bubble"},
                                       {StepPart::optimizer, "optimizer"},
                                       {StepPart::rest, "rest"}});
inline constexpr std::size_t kStepParts = kEnumWords<StepPart>.size();

/// Seconds of each part of a step. They add up to the step.
using StepSeconds = std::array<double, kStepParts>;

/// Returns the parts of the step that RunPrices::step_seconds() predicts with these constants.
StepSeconds step_parts(const RunPrices& prices, const DeviceConstants& constants);

/// For each part of a step, the factor on this part that makes the prediction equal to the measurement. All
/// other parts keep their times. The factor is absent if no value from 0 to 8 does so, and for a part that
/// takes no time.
using StepFactors = std::array<std::optional<double>, kStepParts>;

/// Returns the factor on each part that would explain the error of a prediction. A factor applies to all
/// ranks, so that a factor on products also changes waiting times. The factors of the bubble and of the
/// rest apply to their seconds in `parts`. `parts` must be the result of step_parts().
StepFactors explaining_factors(const RunPrices& prices, const DeviceConstants& constants,
                               const StepSeconds& parts, double measured_seconds);

}  // namespace penstock
