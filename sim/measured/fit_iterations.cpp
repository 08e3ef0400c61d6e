// On one stage an iteration is linear in its costs (iteration_costs.cpp has the equation), and M, the layers,
// degrees and microbatch's size differ from row to row, so that least squares tell the costs apart:
//
//   minimise  sum over rows of (predicted / measured - 1)^2,  no cost below 0
//
// What a pipeline adds, its bubble and the unequal ends, is in no cost; the engine makes it out of them, and
// rows of several stages judge both. Rows of one stage judge themselves in fifths: every fifth row is
// predicted with the costs of the others.

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
#include "sim/runs/simulate.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

constexpr double kMillion = 1e6;

// --- the equations ----------------------------------------------------------------------------------------

/// Where each cost stands among the unknowns: constant, layer and million parameters of the step first, then
/// the reductions, then a layer and the ends of each kind. With hidden sizes 1024 and 2048, one kind of each:
///   0 constant  1 layer  2 parameters | 3, 4 reductions | 5 layer, 6 ends | 7 layer, 8 ends
struct Unknowns {
  std::map<std::int64_t, std::size_t> reductions;  ///< by hidden size
  std::map<FittedLayer, std::size_t> layers;       ///< the ends stand behind the layer
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

/// The row's iteration, which should be what was measured; on one stage, which has embedding and head.
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
  // Divided by what was measured, so that residuals are relative errors and long rows count no more than
  // others.
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

/// Costs are whole nanoseconds. One of a million parameters may be beyond any integer where models have few.
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

/// On one stage the engine has nothing to add.
double seconds_on_one_stage(const IterationCosts& costs, const Iteration& row) {
  const ModelPartSize all{.layers = row.layers, .has_embedding = true, .has_head = true};
  const Ns ns = row.microbatches * microbatch_ns(costs.layers.at(row.kind), all) +
                step_ns(costs, row.kind, all, row.data);
  return static_cast<double>(ns) * kSecondsPerNanosecond;
}

/// Errors of rows of one stage that were predicted without them, or nothing where no fifth is left to fit on.
std::optional<RunGroup> left_out_in_fifths(const std::vector<Iteration>& rows, std::int64_t vocabulary) {
  constexpr std::size_t kParts = 5;
  GroupErrors errors;
  for (std::size_t part = 0; part < kParts; ++part) {
    std::vector<Iteration> fitted;
    // Every fifth, so that each part has rows from all over the file.
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (i % kParts != part) fitted.push_back(rows[i]);
    const IterationCosts costs = costs_of_iterations(fitted, vocabulary);
    for (std::size_t i = part; i < rows.size(); i += kParts) {
      // A kind of layer that only this fifth has is in no cost of the others.
      if (costs.layers.contains(rows[i].kind))
        errors.add(seconds_on_one_stage(costs, rows[i]) / rows[i].seconds - 1);
    }
  }
  if (rows.size() < kParts || errors.empty()) return std::nullopt;
  return errors.named("rows of 1 stage, left out in fifths");
}

/// By the engine, whatever the number of stages.
tl::expected<double, std::string> simulated_seconds(const MeasuredRun& run) {
  SimulateOptions options;
  options.steady = SteadyState::skip;
  options.timeline = TimelineKept::none;
  options.figures = WantedFigures::of_rows;
  const auto prediction = predict(run.scenario, options);
  if (!prediction) return tl::unexpected(fmt::format("{}: {}", run.id, prediction.error().message));
  return static_cast<double>(prediction->result.makespan_ns) * kSecondsPerNanosecond;
}

/// Errors of the rows of several stages; nothing where there are none.
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
    // What was fitted is named so: its errors say how well the form fits, not how well it predicts.
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
  FitReport report{.costs = costs_of_iterations(fitted, vocabulary),
                   .constants = unknowns.count,
                   .told = told_unknowns(equations_of(fitted, unknowns, vocabulary), unknowns.count),
                   .measured = {},
                   .runs = {},
                   .unpriced = {},
                   .held_out = {},
                   .left_out = left_out_in_fifths(fitted, vocabulary)};
  report.costs.link_bytes_per_second = assumed.link_bytes_per_second;
  report.costs.source = fmt::format("{}: {} iterations of one stage", iterations.file, fitted.size());
  Iterations priced{.file = iterations.file, .header = iterations.header, .rows = {}};
  std::vector<bool> is_fitted;
  // A kind of layer that only pipelines have has no costs, and none are guessed.
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
