// Predicts training steps that others have measured. The steps of each model use constants from the other
// models. For example, a site's GPT-3 steps determine the speed of its GPUs, and the same constants must
// predict its Llama steps. If a site, device and precision has only one model, the device's own constants are
// used. These were fitted to the same rows, so such figures test nothing. A100 and B200 are the exceptions,
// because their factors come from kernels.

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/measured/measured_runs.hpp"
#include "sim/measured/predicted_runs.hpp"
#include "sim/published/library_runs.hpp"
#include "sim/published/reproduce.hpp"

namespace penstock {
namespace {

/// Returns the runs of one model, or those of all other models.
MeasuredRuns part_of(const MeasuredRuns& runs, const std::string& model, bool is_of_model) {
  MeasuredRuns part{.header = runs.header, .runs = {}};
  for (const MeasuredRun& run : runs.runs) {
    if ((run.model == model) == is_of_model) part.runs.push_back(run);
  }
  return part;
}

bool has_site(const MeasuredRuns& runs, const MeasuredRun& of) {
  return std::ranges::any_of(runs.runs, [&](const MeasuredRun& run) {
    return run.source == of.source && run.device == of.device && run.precision == of.precision;
  });
}

/// Returns the reason why a prediction does not test the step. Empty if it does test it.
std::string taken_from_rows(const MeasuredRun& run, bool is_fitted_elsewhere) {
  if (model_name(run.model) == "deepseek-v2")
    return "2.5 ms of a layer of experts that no known kernel explains are out of these rows";
  // The factors of A100 and B200 come from kernels, not from steps.
  const bool is_own_factor = run.device == "a100-sxm" || run.device == "b200-sxm";
  if (is_fitted_elsewhere || is_own_factor) return "";
  return fmt::format("{}'s own factor is out of such rows", run.device);
}

/// Returns the figure of a step. It is tested unless the step was used to fit a constant of its own
/// prediction.
ReproducedFigure step_of(const MeasuredRun& run, const PredictedRun& row, bool is_fitted_elsewhere) {
  const std::string what = run.id + ": seconds";
  const std::string why = taken_from_rows(run, is_fitted_elsewhere);
  if (!why.empty()) return fitted(what, row.measured_seconds, row.predicted_seconds, why);
  const bool is_mixed_recipe = run.source == "bridge" && run.device == "gb300" && run.precision == "fp8";
  return noted(equal(Tolerance::step, what, row.measured_seconds, row.predicted_seconds),
               is_mixed_recipe ? "fp8 on GB300 has other recipes for 70B than for 405B" : "");
}

/// Adds the figures of one model: its steps, predicted with constants of all other models, and its peaks.
void add_model(std::vector<ReproducedFigure>& figures, const MeasuredRuns& all, const std::string& model) {
  const MeasuredRuns runs = part_of(all, model, true);
  const MeasuredRuns others = part_of(all, model, false);
  const auto report = predict_runs(runs, &others, {});
  if (!report) throw std::logic_error(report.error());
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const PredictedRun& row = report->rows[i];
    figures.push_back(step_of(runs.runs[i], row, has_site(others, runs.runs[i])));
    if (!row.measured_gib) continue;
    figures.push_back(fitted(runs.runs[i].id + ": GiB", *row.measured_gib, *row.predicted_gib,
                             "small terms of the peak are out of these rows"));
  }
}

}  // namespace

std::vector<ReproducedFigure> reproduce_measured_runs() {
  const MeasuredRuns all = library_runs();
  std::vector<std::string> models;
  for (const MeasuredRun& run : all.runs) {
    if (std::ranges::find(models, run.model) == models.end()) models.push_back(run.model);
  }
  std::vector<ReproducedFigure> figures;
  for (const std::string& model : models) add_model(figures, all, model);
  return figures;
}

}  // namespace penstock
