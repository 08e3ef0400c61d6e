// Finds the constants that bring predicted steps closest to measured ones.
//
// The effect of a constant is the column d log(predicted) / d log(constant), with one entry a run. Constants
// are taken in the order sustained, collectives, step_fraction, expert_layer. A constant is fitted if the
// part of its column that is not a combination of earlier columns is larger than the scatter of measurements.
// Then BOBYQA (Powell, 2009; NLopt), which needs no derivatives, solves
//
//     minimise  sum over runs of log(predicted(constants) / measured)^2   within the bounds
//
// Tests: FitConstants in tests/sim/measured_runs_test.cpp.

#include "sim/measured/fit_constants.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <nlopt.hpp>

#include "sim/measured/run_prices.hpp"

namespace penstock {
namespace {

struct Constant {
  const char* name;
  double DeviceConstants::* value;
  double least;
  double most;
  /// Absolute change by which the effect of a constant is measured whose value may be 0; 0: see kNudge.
  double step = 0;
};
constexpr std::array<Constant, 4> kConstants = {{
    {.name = "sustained", .value = &DeviceConstants::sustained, .least = 0.9, .most = 1.6},
    {.name = "collectives", .value = &DeviceConstants::collectives, .least = 1, .most = 2.2},
    {.name = "step_fraction", .value = &DeviceConstants::step_fraction, .least = 0, .most = 0.35},
    {.name = "expert_layer", .value = &DeviceConstants::expert_layer_ms, .least = 0, .most = 5, .step = 1},
}};
/// Relative change of a constant by which its effect is measured. It is small beside the bounds, and far
/// larger than the rounding of a step to whole nanoseconds.
constexpr double kNudge = 0.05;
/// Smallest effect on a run that is more than scatter, per 100 % change of the constant or per `step`.
constexpr double kLeastEffect = 0.01;
/// Relative tolerance of the constants. They are printed with four digits.
constexpr double kTolerance = 1e-6;
constexpr int kMostEvaluations = 200;

/// A vector with one entry a run.
using Column = std::vector<double>;

/// Returns d log(predicted) / d log(constant) for each run, or d log(predicted) for a `step` of the constant.
Column effect_of(std::span<const TimedRun> runs, const DeviceConstants& prior, const Constant& constant) {
  DeviceConstants nudged = prior;
  // A constant without a step whose prior is 0 stays 0 here and shows no effect, so it is never fitted.
  nudged.*constant.value =
      constant.step > 0 ? prior.*constant.value + constant.step : prior.*constant.value * (1 + kNudge);
  const double change = constant.step > 0 ? 1 : std::log1p(kNudge);
  Column column;
  for (const TimedRun& run : runs) {
    column.push_back(std::log(run.prices->step_seconds(nudged) / run.prices->step_seconds(prior)) / change);
  }
  return column;
}

double product(const Column& a, const Column& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Returns the part of a column that is orthogonal to the given orthonormal columns.
Column beside(Column column, const std::vector<Column>& basis) {
  for (const Column& unit : basis) {
    const double part = product(column, unit);
    for (std::size_t i = 0; i < column.size(); ++i) column[i] -= part * unit[i];
  }
  return column;
}

/// Returns the constants whose effects the runs can separate, found by Gram and Schmidt. Each constant counts
/// only with the part of its column that earlier constants do not explain. `sustained` comes first, so
/// `collectives` keeps its prior if both only scale all runs.
std::vector<Constant> identifiable_constants(std::span<const TimedRun> runs, const DeviceConstants& prior,
                                             std::span<const Constant> candidates) {
  std::vector<Constant> identifiable;
  std::vector<Column> basis;
  for (const Constant& constant : candidates) {
    Column column = beside(effect_of(runs, prior, constant), basis);
    const double length = std::sqrt(product(column, column));
    // kLeastEffect is the effect on one run, and a column's length grows with the square root of the number
    // of runs.
    if (length < kLeastEffect * std::sqrt(static_cast<double>(runs.size()))) continue;
    for (double& entry : column) entry /= length;
    basis.push_back(std::move(column));
    identifiable.push_back(constant);
  }
  return identifiable;
}

DeviceConstants with_values(DeviceConstants constants, const std::vector<Constant>& fitted,
                            const std::vector<double>& values) {
  for (std::size_t i = 0; i < fitted.size(); ++i) constants.*fitted[i].value = values[i];
  return constants;
}

double squares(std::span<const TimedRun> runs, const DeviceConstants& constants) {
  double sum = 0;
  for (const TimedRun& run : runs) {
    const double error = std::log(run.prices->step_seconds(constants) / run.measured_seconds);
    sum += error * error;
  }
  return sum;
}

FittedConstants fitted(std::span<const TimedRun> runs, const DeviceConstants& prior,
                       std::span<const Constant> candidates) {
  FittedConstants fit{.constants = prior, .fitted = {}};
  // Without runs all columns are empty, and no constant is fitted.
  const std::vector<Constant> identifiable = identifiable_constants(runs, prior, candidates);
  if (identifiable.empty()) return fit;
  nlopt::opt search(nlopt::LN_BOBYQA, static_cast<unsigned>(identifiable.size()));
  std::vector<double> values;
  std::vector<double> least;
  std::vector<double> most;
  for (const Constant& constant : identifiable) {
    fit.fitted.emplace_back(constant.name);
    least.push_back(constant.least);
    most.push_back(constant.most);
    // NLopt requires a start within the bounds.
    values.push_back(std::clamp(prior.*constant.value, constant.least, constant.most));
  }
  search.set_lower_bounds(least);
  search.set_upper_bounds(most);
  search.set_xtol_rel(kTolerance);
  search.set_maxeval(kMostEvaluations);
  // NLopt passes one pointer to a C function, so a lambda with captures is not possible.
  struct Question {
    std::span<const TimedRun> runs;
    const DeviceConstants& prior;
    const std::vector<Constant>& identifiable;
  } question{.runs = runs, .prior = prior, .identifiable = identifiable};
  search.set_min_objective(
      [](const std::vector<double>& at, std::vector<double>& /*gradient*/, void* asked) {
        const auto& of = *static_cast<const Question*>(asked);
        return squares(of.runs, with_values(of.prior, of.identifiable, at));
      },
      &question);
  double error = 0;
  search.optimize(values, error);
  fit.constants = with_values(prior, identifiable, values);
  return fit;
}

}  // namespace

FittedConstants fit_constants(std::span<const TimedRun> runs, const DeviceConstants& prior) {
  return fitted(runs, prior, kConstants);
}

FittedConstants fit_expert_layer(std::span<const TimedRun> runs, const DeviceConstants& prior) {
  return fitted(runs, prior, std::span(kConstants).last(1));
}

}  // namespace penstock
