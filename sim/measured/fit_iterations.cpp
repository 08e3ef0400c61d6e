// Finds the costs of layers from the iterations of one stage. On one stage an iteration is linear in its
// costs (iteration_costs.cpp has the equation). Layers, degrees, microbatch sizes and counts differ from row
// to row, so least squares can separate the costs:
//
//     minimise  sum over rows of (predicted / measured - 1)^2,  no cost below 0
//
// The bubble and the unequal first and last stages of a pipeline are in no cost. The engine computes them
// from the costs, and the rows of several stages test both. The rows of one stage are tested in fifths: each
// fifth is predicted with costs fitted on the other four. Tests: tests/sim/fit_iterations_test.cpp.

#include "sim/measured/fit_iterations.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/pricing/iteration_costs.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/parallel_loop.hpp"
#include "sim/measured/group_errors.hpp"
#include "sim/measured/least_squares.hpp"
#include "sim/measured/measured_iterations.hpp"
#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

constexpr double kMillion = 1e6;

// --- the equations ----------------------------------------------------------------------------------------

/// The position of each cost among the unknowns. First come the constant, a layer of the step and a million
/// parameters of the step. Then come the reductions, and then the layer and the ends of each kind. With
/// hidden sizes 1024 and 2048 and one kind of layer for each:
///
///     0 constant  1 layer  2 parameters | 3, 4 reductions | 5 layer, 6 ends | 7 layer, 8 ends
struct Unknowns {
  std::map<std::int64_t, std::size_t> reductions;  ///< key: hidden size
  std::map<FittedLayer, std::size_t> layers;       ///< position of the layer; its ends come right after it
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

/// Returns the equation of a row of one stage, which has both the embedding and the head. The sum of its
/// costs should equal the measured time.
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
  // The equation is divided by the measured time. Residuals are then relative errors, and long iterations
  // count no more than short ones.
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

/// Rounds a cost to whole nanoseconds. The cost of a million parameters may exceed any integer if the models
/// have few, so it is limited.
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

/// Returns the predicted seconds of a row of one stage. The linear equation is enough, because there are no
/// messages and no bubble.
double seconds_on_one_stage(const IterationCosts& costs, const Iteration& row) {
  const ModelPartSize all{.layers = row.layers, .has_embedding = true, .has_head = true};
  const Ns ns = row.microbatches * microbatch_ns(costs.layers.at(row.kind), all) +
                step_ns(costs, row.kind, all, row.data);
  return static_cast<double>(ns) * kSecondsPerNanosecond;
}

/// Returns the errors of rows of one stage. Each fifth of the rows is predicted from a fit to the other rows.
/// Returns nothing if there are fewer than five rows or no row could be predicted.
std::optional<RunGroup> left_out_in_fifths(const std::vector<Iteration>& rows, std::int64_t vocabulary) {
  constexpr std::size_t kParts = 5;
  GroupErrors errors;
  for (std::size_t part = 0; part < kParts; ++part) {
    std::vector<Iteration> fitted;
    // Every fifth row is left out, so that each part has rows from the whole file.
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (i % kParts != part) fitted.push_back(rows[i]);
    const IterationCosts costs = costs_of_iterations(fitted, vocabulary);
    for (std::size_t i = part; i < rows.size(); i += kParts) {
      // If only this fifth has this kind of layer, the other rows give no cost for it.
      if (costs.layers.contains(rows[i].kind))
        errors.add(seconds_on_one_stage(costs, rows[i]) / rows[i].seconds - 1);
    }
  }
  if (rows.size() < kParts || errors.empty()) return std::nullopt;
  return errors.named("rows of 1 stage, left out in fifths");
}

/// Returns the seconds that the engine predicts, for any number of stages.
tl::expected<double, std::string> simulated_seconds(const MeasuredRun& run) {
  SimulateOptions options;
  options.steady = SteadyState::skip;
  options.timeline = TimelineKept::none;
  options.figures = WantedFigures::of_rows;
  const auto prediction = predict(run.scenario, options);
  if (!prediction) return tl::unexpected(fmt::format("{}: {}", run.id, prediction.error().message));
  return static_cast<double>(prediction->result.makespan_ns) * kSecondsPerNanosecond;
}

/// Returns the errors of the rows of several stages, or nothing if there are none.
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
    // Errors of fitted rows show how well the formula fits, not how well it predicts. So the group's name
    // contains "fitted".
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
  // A kind of layer that only pipelines of several stages have has no costs, so its rows are not predicted.
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

}  // namespace penstock
