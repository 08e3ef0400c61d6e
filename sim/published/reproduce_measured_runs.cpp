// Training steps that others measured, each model's with constants of the other models': a site's GPT-3 steps
// say how fast its GPUs are in a step, and the same constants must do for its Llama. A site, device and
// precision with one model alone has the device's own constants, which came out of these very rows but for
// A100's and B200's, whose factors are those of kernels; steps so predicted test nothing.

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

/// The runs of a model, or all others.
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

/// Why a prediction tests nothing of the step; empty: it does.
std::string taken_from_rows(const MeasuredRun& run, bool is_fitted_elsewhere) {
  // Neither factor is out of a step: A100's and B200's are those of kernels.
  const bool is_own_factor = run.device == "a100-sxm" || run.device == "b200-sxm";
  if (is_fitted_elsewhere || is_own_factor) return "";
  return fmt::format("{}'s own factor is out of such rows", run.device);
}

/// Held, unless its own step is in a constant that predicts it.
ReproducedFigure step_of(const MeasuredRun& run, const PredictedRun& row, bool is_fitted_elsewhere) {
  const std::string what = run.id + ": seconds";
  const std::string why = taken_from_rows(run, is_fitted_elsewhere);
  if (!why.empty()) return fitted(what, row.measured_seconds, row.predicted_seconds, why);
  const bool is_mixed_recipe = run.source == "bridge" && run.device == "gb300" && run.precision == "fp8";
  const bool has_experts = model_name(run.model) == "deepseek-v2";
  return noted(equal(Tolerance::step, what, row.measured_seconds, row.predicted_seconds),
               is_mixed_recipe ? "fp8 on GB300 has other recipes for 70B than for 405B"
               : has_experts   ? "4 ms of a layer of experts that no known kernel explains are missing"
                               : "");
}

/// Leave one model out: its rows by constants of all others, then its peaks.
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
