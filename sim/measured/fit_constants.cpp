// What runs tell of a constant is how their predicted times move with it, the column d log(predicted) / d
// log(constant). Constants are taken in the order sustained, collectives, step_fraction as long as the part
// of their column that is not a combination of the earlier ones' is large enough to stand above the scatter
// of measurements. Then
//
//   minimise  sum over runs of log(predicted(constants) / measured)^2   within the bounds
//
// by BOBYQA (Powell, 2009; NLopt), which needs no derivatives.

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
};
constexpr std::array<Constant, 3> kConstants = {{
    {.name = "sustained", .value = &DeviceConstants::sustained, .least = 0.9, .most = 1.6},
    {.name = "collectives", .value = &DeviceConstants::collectives, .least = 1, .most = 2.2},
    {.name = "step_fraction", .value = &DeviceConstants::step_fraction, .least = 0, .most = 0.35},
}};
/// Change of a constant by which its effect is seen: small beside its bounds, and far above what rounding to
/// whole nanoseconds does to a step.
constexpr double kNudge = 0.05;
/// Least effect of a nudge of 100 % on a run, beside that of other constants, that is more than scatter.
constexpr double kLeastEffect = 0.01;
/// Of the constants, relative; they are printed with four digits.
constexpr double kTolerance = 1e-6;
constexpr int kMostEvaluations = 200;

/// An entry a run.
using Column = std::vector<double>;

/// d log(predicted) / d log(constant), by run.
Column effect_of(std::span<const TimedRun> runs, const DeviceConstants& prior, const Constant& constant) {
  DeviceConstants nudged = prior;
  // A prior of 0 stays 0, which shows no effect, so that such a constant is never fitted.
  nudged.*constant.value *= 1 + kNudge;
  Column column;
  for (const TimedRun& run : runs) {
    column.push_back(std::log(run.prices->step_seconds(nudged) / run.prices->step_seconds(prior)) /
                     std::log1p(kNudge));
  }
  return column;
}

double product(const Column& a, const Column& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// What is left of a column beside unit columns that are at right angles to each other.
Column beside(Column column, const std::vector<Column>& basis) {
  for (const Column& unit : basis) {
    const double part = product(column, unit);
    for (std::size_t i = 0; i < column.size(); ++i) column[i] -= part * unit[i];
  }
  return column;
}

/// The constants that the runs tell apart.
/// By Gram and Schmidt: a constant is told as far as its column is not made of those before it. So the
/// sustained factor comes first, and collectives that only scale with it keep their prior.
std::vector<Constant> told_apart(std::span<const TimedRun> runs, const DeviceConstants& prior) {
  std::vector<Constant> told;
  std::vector<Column> basis;
  for (const Constant& constant : kConstants) {
    Column column = beside(effect_of(runs, prior, constant), basis);
    const double length = std::sqrt(product(column, column));
    // The least effect is that on one run; a column's length grows with the root of their number.
    if (length < kLeastEffect * std::sqrt(static_cast<double>(runs.size()))) continue;
    for (double& entry : column) entry /= length;
    basis.push_back(std::move(column));
    told.push_back(constant);
  }
  return told;
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

}  // namespace

FittedConstants fit_constants(std::span<const TimedRun> runs, const DeviceConstants& prior) {
  FittedConstants fit{.constants = prior, .fitted = {}};
  // Without runs all columns are empty, and nothing is told.
  const std::vector<Constant> told = told_apart(runs, prior);
  if (told.empty()) return fit;
  nlopt::opt search(nlopt::LN_BOBYQA, static_cast<unsigned>(told.size()));
  std::vector<double> values;
  std::vector<double> least;
  std::vector<double> most;
  for (const Constant& constant : told) {
    fit.fitted.emplace_back(constant.name);
    least.push_back(constant.least);
    most.push_back(constant.most);
    // The search must begin within its bounds.
    values.push_back(std::clamp(prior.*constant.value, constant.least, constant.most));
  }
  search.set_lower_bounds(least);
  search.set_upper_bounds(most);
  search.set_xtol_rel(kTolerance);
  search.set_maxeval(kMostEvaluations);
  // NLopt hands on a pointer and takes no captures.
  struct Question {
    std::span<const TimedRun> runs;
    const DeviceConstants& prior;
    const std::vector<Constant>& told;
  } question{.runs = runs, .prior = prior, .told = told};
  search.set_min_objective(
      [](const std::vector<double>& at, std::vector<double>& /*gradient*/, void* asked) {
        const auto& of = *static_cast<const Question*>(asked);
        return squares(of.runs, with_values(of.prior, of.told, at));
      },
      &question);
  double error = 0;
  search.optimize(values, error);
  fit.constants = with_values(prior, told, values);
  return fit;
}

}  // namespace penstock
