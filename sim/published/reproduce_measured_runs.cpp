// Training steps that others measured, each model's with constants of the other models': a site's GPT-3 steps
// say how fast its GPUs are in a step, and the same constants must do for its Llama. A site, device and
// precision with one model alone has the device's own constants, which came out of these very rows but for
// A100's and B200's, whose factors are those of kernels; steps so predicted test nothing.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/shape.hpp"
#include "sim/hold/library_texts.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/published/reproduce_runs.hpp"
#include "text/csv_table.hpp"

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

// Measured stages, simulated: what a pipeline makes of times that were taken stage by stage, held against the
// iteration that was measured as a whole. The file is scenarios/library/runs/stage_times.csv.

namespace {

constexpr std::array<std::string_view, 6> kStageTimeColumns = {"case",       "method",      "M",
                                                               "forward_us", "backward_us", "iteration_ms"};

/// The file of the library; what is wrong with it is a fault of the library.
CsvTable measured_stages() {
  const auto text = std::ranges::find(library_texts(), "stage_times", &LibraryText::name);
  if (text == library_texts().end()) throw std::logic_error("the library has no stage_times");
  auto table = CsvTable::parse(text->text, kStageTimeColumns);
  if (!table) throw std::logic_error(table.error());
  return *std::move(table);
}

/// "10572 10591 .." in microseconds, as units of a millisecond.
std::vector<double> milliseconds(const std::string& cell) {
  constexpr double kPerMillisecond = 1000;
  std::vector<double> values;
  std::istringstream words(cell);
  for (double us = 0; words >> us;) values.push_back(us / kPerMillisecond);
  return values;
}

double predicted_ms(const CsvTable& table, std::size_t row) {
  const std::vector<double> forward = milliseconds(table.cell(row, "forward_us"));
  const std::vector<double> backward = milliseconds(table.cell(row, "backward_us"));
  std::vector<UnitTimes> stages;
  stages.reserve(forward.size());
  for (std::size_t stage = 0; stage < forward.size(); ++stage)
    stages.push_back({.forward = forward[stage], .backward = backward.at(stage)});
  const Shape shape{.stages = static_cast<std::int32_t>(stages.size()),
                    .microbatches = std::stoi(table.cell(row, "M"))};
  return makespan_units(predicted_run("1f1b", shape, stages));
}

}  // namespace

std::vector<ReproducedFigure> reproduce_stage_times() {
  const CsvTable table = measured_stages();
  std::vector<ReproducedFigure> figures;
  double sum = 0;
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    const double measured = table.positive(row, "iteration_ms").value();
    const double predicted = predicted_ms(table, row);
    sum += std::abs(predicted / measured - 1);
    figures.push_back(equal(Tolerance::ratio, fmt::format("{}: ms an iteration", table.cell(row, "case")),
                            measured, predicted));
  }
  figures.push_back(shown("mean error of these, %", 100 * sum / static_cast<double>(table.row_count())));
  return figures;
}

}  // namespace penstock
