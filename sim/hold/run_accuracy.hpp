#pragma once
// Divides a predicted step into parts. For each part, it finds the factor on this part that would explain
// the error of the prediction.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The parts of a training step. Their seconds are those of the rank that computes longest.
enum class StepPart : std::uint8_t {
  products,     // matrix products, also those that are computed again
  attention,    // fused attention
  memory,       // norms, activations, casts and other kernels that memory limits
  collectives,  // transfers in tensor, context and expert groups that do not overlap with computation
  reduction,    // transfers between copies that do not overlap with computation: gradients, and weights with
                // ZeRO
  bubble,       // waiting for other stages, computed with messages that take no time
  optimizer,    // the update of the weights
  rest,         // the rest: the host, gaps between kernels, messages between stages, and unexplained time
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
/// ranks, so a factor on products also changes waiting times. The factors of the bubble and of the rest
/// multiply only their own seconds in `parts`. `parts` must be the result of step_parts().
StepFactors explaining_factors(const RunPrices& prices, const DeviceConstants& constants,
                               const StepSeconds& parts, double measured_seconds);

// Estimates how accurate predictions of measured runs are. It gives an interval for each prediction and the
// parts of each error. It also finds the pairs of configurations that are predicted in the right order.

/// The interval in which a measured step lies with a probability of 90 %.
struct StepInterval {
  double low = 0;
  double high = 0;
  std::size_t rows = 0;  ///< number of other rows from which the interval is computed
};

/// Returns the interval of each run. It is computed from the errors of the other runs in the same class.
/// `errors` has log(predicted / measured) of each run. For runs with fitted constants, these must be the
/// errors of left_out_errors(). An interval is absent if the class has fewer than three other runs.
std::vector<std::optional<StepInterval>> step_intervals(const MeasuredRuns& runs, const RunsReport& report,
                                                        std::span<const double> errors);

/// The parts of a run's predicted step, and the factors on each part that would explain the error.
struct ExplainedRun {
  StepSeconds parts{};
  StepFactors factors{};
  std::optional<StepInterval> interval{};
};
/// Explains each run. `report` must be the result of predict_runs() for `runs`. If its constants were fitted
/// on these runs, the intervals follow from left_out_errors().
std::vector<ExplainedRun> explain_runs(const PricedRuns& runs, const RunsReport& report);

/// Two measured configurations of one job, whose measured steps differ by more than kLeastPairDifference. The
/// configurations have the same source, model, layers, device, number of devices, precision, sequence and
/// batch.
struct RunPair {
  std::size_t faster = 0;  ///< index of the run with the shorter measured step
  std::size_t slower = 0;
  double measured = 0;   ///< measured seconds of the slower run divided by those of the faster one, minus 1
  double predicted = 0;  ///< the same ratio of the predictions
  /// Returns true if the predicted steps have the same order as the measured ones. Equal predictions count
  /// as wrong.
  bool is_right() const { return predicted > 0; }
};
inline constexpr double kLeastPairDifference = 0.03;

/// Returns all pairs of runs, in the order of their first runs. Two runs of the same configuration do not
/// form a pair.
std::vector<RunPair> run_pairs(const MeasuredRuns& runs, const RunsReport& report);

/// The number of pairs of one class or source, and the number of pairs that are predicted in the right
/// order.
struct PairCount {
  std::string name;
  std::size_t pairs = 0;
  std::size_t right = 0;
};
/// Counts pairs by class, in alphabetical order. A pair of runs from two classes is counted under "CLASS /
/// CLASS".
std::vector<PairCount> pairs_by_class(const MeasuredRuns& runs, std::span<const RunPair> pairs);
/// Counts pairs by source, in alphabetical order.
std::vector<PairCount> pairs_by_source(const MeasuredRuns& runs, std::span<const RunPair> pairs);

}  // namespace penstock
