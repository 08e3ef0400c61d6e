// Finds the costs of layers from measured iterations with one stage. The time of such an iteration is a
// linear function of the costs (iteration_costs.cpp has the equation). The rows of the file differ in layers,
// degrees, microbatch sizes and counts, so least squares can separate the costs:
//
//     minimise  sum over rows of (predicted / measured - 1)^2,  no cost below 0
//
// The rows with one stage are tested by cross-validation: each fifth of them is predicted with costs that
// were fitted on the other four fifths. For rows with several stages, the engine computes the bubble and the
// differences between stages. These rows are not used in the fit, so they test it. Tests:
// tests/sim/measured_runs_test.cpp.

#include "sim/hold/fit_iterations.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <Eigen/Dense>
#include <tl/expected.hpp>

#include "scenarios/pricing/iteration_costs.hpp"
#include "schedules/ir/action.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/sweep/parallel_loop.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

constexpr double kMillion = 1e6;

// --- the equations ----------------------------------------------------------------------------------------

/// The position of each cost among the unknowns. The first one is a constant. The next two are the step's
/// time for a layer and for a million parameters. Then come the reductions for each hidden size. Last come
/// two times for each kind of layer: that of the layer, and that of the model's ends. For example, with the
/// hidden sizes 1024 and 2048, and one kind of layer for each:
///
///     0 constant  1 layer  2 parameters | 3, 4 reductions | 5 layer, 6 ends | 7 layer, 8 ends
struct Unknowns {
  std::map<std::int64_t, std::size_t> reductions;  ///< key: hidden size
  /// Position of the layer's time; the next position has the time of the model's ends.
  std::map<FittedLayer, std::size_t> layers;
  std::size_t count = 3;
};

Unknowns unknowns_of(const std::vector<Iteration>& rows) {
  Unknowns unknowns;
  for (const Iteration& row : rows) {
    if (unknowns.reductions.emplace(row.kind.hidden, unknowns.count).second) ++unknowns.count;
  }
  for (const Iteration& row : rows) {
    if (unknowns.layers.emplace(row.kind, unknowns.count).second) unknowns.count += 2;
  }
  return unknowns;
}

/// Returns the equation of a row with one stage. It states that the sum of the costs equals the measured
/// time. The stage has both the embedding and the head.
LinearEquation equation_of(const Iteration& row, const Unknowns& unknowns, std::int64_t vocabulary) {
  const auto layers = static_cast<double>(row.layers);
  const auto microbatches = static_cast<double>(row.microbatches);
  const ModelPartSize all{.layers = row.layers, .has_embedding = true, .has_head = true};
  const double millions = device_parameters(row.kind, vocabulary, all) / kMillion;
  const std::size_t layer = unknowns.layers.at(row.kind);
  LinearEquation equation{
      .terms = {{0, 1},
                {1, layers},
                {2, millions},
                {unknowns.reductions.at(row.kind.hidden), millions * ring_share(row.data)},
                {layer, microbatches * layers},
                {layer + 1, microbatches}},
      .value = 1};
  // The equation is divided by the measured time, so that residuals are relative errors. Otherwise long
  // iterations would have more weight than short ones.
  for (auto& [unknown, coefficient] : equation.terms) coefficient *= kSecondsPerNanosecond / row.seconds;
  return equation;
}

std::vector<LinearEquation> equations_of(const std::vector<Iteration>& rows, const Unknowns& unknowns,
                                         std::int64_t vocabulary) {
  std::vector<LinearEquation> equations;
  equations.reserve(rows.size());
  for (const Iteration& row : rows) equations.push_back(equation_of(row, unknowns, vocabulary));
  return equations;
}

/// Returns a cost rounded to whole nanoseconds. The result is limited, because the cost of a million
/// parameters may be huge if the models have few parameters.
Ns whole(double ns) {
  constexpr double kMost = 1e18;
  return static_cast<Ns>(std::llround(std::min(ns, kMost)));
}

// --- judging ----------------------------------------------------------------------------------------------

std::vector<Iteration> of_one_stage(const Iterations& iterations) {
  std::vector<Iteration> rows;
  for (const Iteration& row : iterations.rows)
    if (row.stages == 1) rows.push_back(row);
  return rows;
}

/// Returns the predicted seconds of a row with one stage. The linear equation is enough, because such a row
/// has neither messages nor a bubble.
double seconds_on_one_stage(const IterationCosts& costs, const Iteration& row) {
  const ModelPartSize all{.layers = row.layers, .has_embedding = true, .has_head = true};
  const Ns ns = row.microbatches * microbatch_ns(costs.layers.at(row.kind), all) +
                step_ns(costs, row.kind, all, row.data);
  return static_cast<double>(ns) * kSecondsPerNanosecond;
}

/// Returns the prediction errors of rows with one stage, by cross-validation. Each fifth of the rows is
/// predicted with costs that are fitted on the other rows. Returns nothing if there are fewer than five
/// rows, or if no row could be predicted.
std::optional<RunGroup> left_out_in_fifths(const std::vector<Iteration>& rows, std::int64_t vocabulary) {
  constexpr std::size_t kParts = 5;
  GroupErrors errors;
  for (std::size_t part = 0; part < kParts; ++part) {
    std::vector<Iteration> fitted;
    // Each part consists of every fifth row, so that it has rows from the whole file.
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (i % kParts != part) fitted.push_back(rows[i]);
    const IterationCosts costs = costs_of_iterations(fitted, vocabulary);
    for (std::size_t i = part; i < rows.size(); i += kParts) {
      // If only rows of this part have this kind of layer, the other rows determine no cost for it.
      if (costs.layers.contains(rows[i].kind))
        errors.add(seconds_on_one_stage(costs, rows[i]) / rows[i].seconds - 1);
    }
  }
  if (rows.size() < kParts || errors.empty()) return std::nullopt;
  return errors.named("rows of 1 stage, left out in fifths");
}

/// Returns the seconds that the engine predicts for a run. The run may have any number of stages.
tl::expected<double, std::string> simulated_seconds(const MeasuredRun& run) {
  SimulateOptions options;
  options.steady = SteadyState::skip;
  options.timeline = TimelineKept::none;
  options.figures = WantedFigures::of_rows;
  const auto prediction = predict(run.scenario, options);
  if (!prediction) return tl::unexpected(fmt::format("{}: {}", run.id, prediction.error().message));
  return static_cast<double>(prediction->result.makespan_ns) * kSecondsPerNanosecond;
}

/// Returns the prediction errors of the rows with several stages, which the fit does not use. Returns nothing
/// if there are no such rows.
std::optional<RunGroup> not_fitted(const RunsReport& report) {
  GroupErrors errors;
  for (const PredictedRun& row : report.rows)
    if (!row.fitted) errors.add(row.error);
  if (errors.empty()) return std::nullopt;
  return errors.named("rows of several stages");
}

}  // namespace

IterationCosts costs_of_iterations(const std::vector<Iteration>& rows, std::int64_t vocabulary) {
  const Unknowns unknowns = unknowns_of(rows);
  const std::vector<double> found =
      non_negative_least_squares(equations_of(rows, unknowns, vocabulary), unknowns.count);
  IterationCosts costs{.source = {},
                       .vocabulary = vocabulary,
                       .layers = {},
                       .step = {.constant_ns = whole(found[0]),
                                .layer_ns = whole(found[1]),
                                .million_parameters_ns = whole(found[2]),
                                .million_reduced_ns = {}}};
  for (const auto& [hidden, unknown] : unknowns.reductions)
    costs.step.million_reduced_ns[hidden] = whole(found[unknown]);
  for (const auto& [kind, unknown] : unknowns.layers)
    costs.layers[kind] = {.layer_ns = whole(found[unknown]), .ends_ns = whole(found[unknown + 1])};
  return costs;
}

tl::expected<RunsReport, std::string> predict_iterations(const MeasuredRuns& runs,
                                                         const std::vector<bool>& is_fitted) {
  std::vector<tl::expected<double, std::string>> seconds(runs.runs.size(), 0.0);
  parallel_loop(seconds.size(), [&](std::size_t i) { seconds[i] = simulated_seconds(runs.runs[i]); });
  RunsReport report;
  GroupErrors all;
  ErrorsByGroup groups;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (!seconds[i]) return tl::unexpected(seconds[i].error());
    const MeasuredRun& run = runs.runs[i];
    const double error = *seconds[i] / run.step_seconds - 1;
    report.rows.push_back({.id = run.id,
                           .measured_seconds = run.step_seconds,
                           .predicted_seconds = *seconds[i],
                           .error = error,
                           .fitted = is_fitted[i]});
    // The errors of fitted rows show how well the costs fit, but not how well they predict. So the group's
    // name contains "fitted".
    groups.add(is_fitted[i] ? run.source + ", fitted" : run.source, error);
    all.add(error);
  }
  report.groups = groups.groups();
  std::ranges::sort(report.groups, {}, &RunGroup::name);
  if (!all.empty()) report.all = all.named("all");
  return report;
}

tl::expected<FitReport, std::string> fit_iterations(const Iterations& iterations,
                                                    const FitAssumptions& assumed) {
  const std::vector<Iteration> fitted = of_one_stage(iterations);
  if (fitted.empty()) {
    return tl::unexpected(
        fmt::format("{}: expected rows of one stage, on which costs are fitted, got none", iterations.file));
  }
  const Unknowns unknowns = unknowns_of(fitted);
  const std::int64_t vocabulary = assumed.vocabulary;
  FitReport report{
      .costs = costs_of_iterations(fitted, vocabulary),
      .constants = unknowns.count,
      .determined = identifiable_unknowns(equations_of(fitted, unknowns, vocabulary), unknowns.count),
      .measured = {},
      .runs = {},
      .unpriced = {},
      .held_out = {},
      .left_out = left_out_in_fifths(fitted, vocabulary)};
  report.costs.link_bytes_per_second = assumed.link_bytes_per_second;
  report.costs.source = fmt::format("{}: {} iterations of one stage", iterations.file, fitted.size());
  Iterations priced{.file = iterations.file, .header = iterations.header, .rows = {}};
  std::vector<bool> is_fitted;
  // Costs are fitted on rows with one stage. If no such row has a row's kind of layer, the row cannot be
  // predicted.
  for (const Iteration& row : iterations.rows) {
    if (!report.costs.layers.contains(row.kind)) {
      report.unpriced.push_back(row.line);
      continue;
    }
    priced.rows.push_back(row);
    is_fitted.push_back(row.stages == 1);
  }
  report.measured = runs_with(priced, std::make_shared<const IterationCosts>(report.costs));
  auto runs = predict_iterations(report.measured, is_fitted);
  if (!runs) return tl::unexpected(fmt::format("{}: {}", iterations.file, runs.error()));
  report.runs = *std::move(runs);
  report.held_out = not_fitted(report.runs);
  return report;
}

// Solves linear least squares with the condition that no value is below 0, by the algorithm in Lawson and
// Hanson, Solving Least Squares Problems (1974), chapter 23. The unknowns in the set P may be above 0, and
// all others are 0:
//
//     while some unknown outside P would make the residual smaller (gradient A^T (b - A x) > 0)
//       take the one with the steepest gradient into P, s = the least squares of P alone
//       while s has an unknown of P that is not above 0
//         go from x towards s until the first of them is 0, drop it from P, s = the least squares of P
//       x = s
//
// Columns are scaled to length 1, so the gradients do not depend on units. Many columns have nearly the same
// direction, so Eigen's QR decomposition with pivots solves the inner problems. Tests:
// tests/sim/measured_runs_test.cpp.

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// The limit below which gradients and values count as 0. For gradients, it is relative to the length of the
/// vector b.
constexpr double kNothing = 1e-12;

/// The equations as a matrix. Every column that is not 0 is scaled to length 1.
struct System {
  MatrixXd columns;
  VectorXd values;
  VectorXd lengths;
};

System system_of(const std::vector<LinearEquation>& equations, std::size_t unknowns) {
  const auto rows = static_cast<Index>(equations.size());
  System system{.columns = MatrixXd::Zero(rows, static_cast<Index>(unknowns)),
                .values = VectorXd(rows),
                .lengths = VectorXd(static_cast<Index>(unknowns))};
  for (Index row = 0; row < rows; ++row) {
    const LinearEquation& equation = equations[static_cast<std::size_t>(row)];
    // An unknown may appear several times in one equation.
    for (const auto& [unknown, coefficient] : equation.terms)
      system.columns(row, static_cast<Index>(unknown)) += coefficient;
    system.values(row) = equation.value;
  }
  for (Index column = 0; column < system.columns.cols(); ++column) {
    const double length = system.columns.col(column).norm();
    system.lengths(column) = length;
    // An unknown that appears in no equation has a column of zeros. Its value is then 0.
    if (length > 0) system.columns.col(column) /= length;
  }
  return system;
}

/// Returns the solution by least squares in which only the unknowns in `passive` may differ from 0.
VectorXd solved(const System& system, const std::vector<Index>& passive) {
  MatrixXd part(system.columns.rows(), static_cast<Index>(passive.size()));
  for (std::size_t i = 0; i < passive.size(); ++i)
    part.col(static_cast<Index>(i)) = system.columns.col(passive[i]);
  const VectorXd values = part.colPivHouseholderQr().solve(system.values);
  VectorXd all = VectorXd::Zero(system.columns.cols());
  for (std::size_t i = 0; i < passive.size(); ++i) all(passive[i]) = values(static_cast<Index>(i));
  return all;
}

/// Returns the unknown outside `passive` with the steepest gradient, or nothing if no gradient is above the
/// tolerance.
std::optional<Index> steepest(const System& system, const VectorXd& at, const std::vector<Index>& passive) {
  VectorXd gradient = system.columns.transpose() * (system.values - system.columns * at);
  for (const Index unknown : passive) gradient(unknown) = -std::numeric_limits<double>::infinity();
  Index best = 0;
  if (gradient.size() == 0 || gradient.maxCoeff(&best) <= kNothing * system.values.norm())
    return std::nullopt;
  return best;
}

/// Moves from `at` towards `target` until the first unknown of `passive` reaches 0, and returns this point.
/// Removes the unknowns that are now 0 from `passive`.
VectorXd within_bounds(const VectorXd& at, const VectorXd& target, std::vector<Index>& passive) {
  double part = 1;
  for (const Index unknown : passive) {
    if (target(unknown) <= 0) part = std::min(part, at(unknown) / (at(unknown) - target(unknown)));
  }
  // If part < 1, the unknown that limits the move becomes 0 here, except for rounding.
  VectorXd moved = at + part * (target - at);
  std::erase_if(passive, [&](Index unknown) {
    const bool is_nothing = target(unknown) <= 0 && moved(unknown) <= kNothing;
    if (is_nothing) moved(unknown) = 0;
    return is_nothing;
  });
  return moved;
}

}  // namespace

std::vector<double> non_negative_least_squares(const std::vector<LinearEquation>& equations,
                                               std::size_t unknowns) {
  const System system = system_of(equations, unknowns);
  VectorXd at = VectorXd::Zero(static_cast<Index>(unknowns));
  std::vector<Index> passive;
  // Each round ends with another set `passive` and a smaller residual. The limit ends cycles that rounding
  // errors could cause.
  for (std::size_t round = 0; round < 3 * unknowns; ++round) {
    const auto next = steepest(system, at, passive);
    if (!next) break;
    passive.push_back(*next);
    VectorXd target = solved(system, passive);
    // According to the gradient, this unknown should become positive. If it does not, the gradient was only a
    // rounding error.
    if (target(*next) <= 0) break;
    while (std::ranges::any_of(passive, [&](Index unknown) { return target(unknown) <= 0; })) {
      at = within_bounds(at, target, passive);
      target = solved(system, passive);
    }
    // All unknowns of the set are now above 0, so this solution is valid.
    at = target;
  }
  std::vector<double> answer(unknowns, 0);
  for (const Index unknown : passive)
    answer[static_cast<std::size_t>(unknown)] = at(unknown) / system.lengths(unknown);
  return answer;
}

std::size_t identifiable_unknowns(const std::vector<LinearEquation>& equations, std::size_t unknowns) {
  // Columns have length 1. A pivot below this tolerance belongs to a column that is a combination of others.
  constexpr double kTolerance = 1e-9;
  auto factors = system_of(equations, unknowns).columns.colPivHouseholderQr();
  factors.setThreshold(kTolerance);
  return static_cast<std::size_t>(factors.rank());
}

}  // namespace penstock
