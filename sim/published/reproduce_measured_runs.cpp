// Predicts training steps that others have measured. To predict the steps of one model, constants are fitted
// to other models of the same source, device and precision. For example, constants that were fitted to GPT-3
// predict the steps of Llama. If there is only one model, the device's own constants are used. Such a
// prediction tests nothing, because the device's constants were fitted to the same steps. A100 and B200 are
// exceptions: their constants were measured on kernels.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/host/library_texts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/published/reproduce.hpp"
#include "text/csv_table.hpp"

namespace penstock {

namespace {

/// Returns the runs of `model`, or the runs of all other models if `is_of_model` is false.
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

/// Returns the reason why the prediction of a step tests nothing. This is the case if the device's own factor
/// was fitted to such steps. Returns an empty text if the prediction is a test.
std::string taken_from_rows(const MeasuredRun& run, bool is_fitted_elsewhere) {
  // The factors of A100 and B200 were fitted on kernels and not on steps.
  const bool is_own_factor = run.device == "a100-sxm" || run.device == "b200-sxm";
  if (is_fitted_elsewhere || is_own_factor) return "";
  return fmt::format("{}'s own factor is out of such rows", run.device);
}

/// Returns the figure of a step. Its class is `fitted` if the step was used to determine a constant.
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

/// Adds the step times and the peaks of one model. They are predicted with constants that were fitted on the
/// other models.
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

// Simulates pipelines with measured times of their stages, and compares the results with the measured times
// of whole iterations. The measurements are in scenarios/library/runs/stage_times.csv.

namespace {

constexpr std::array<std::string_view, 7> kStageTimeColumns = {
    "case", "method", "M", "vocab", "forward_us", "backward_us", "iteration_ms"};

/// Returns the table of measured stages. Throws std::logic_error if the file has a fault, because the file
/// is part of the library.
CsvTable measured_stages() {
  const auto text = std::ranges::find(library_texts(), "stage_times", &LibraryText::name);
  if (text == library_texts().end()) throw std::logic_error("the library has no stage_times");
  auto table = CsvTable::parse(text->text, kStageTimeColumns);
  if (!table) throw std::logic_error(table.error());
  return *std::move(table);
}

/// Reads times such as "10572 10591 .." in microseconds and returns them in milliseconds.
std::vector<double> milliseconds(const std::string& cell) {
  constexpr double kPerMillisecond = 1000;
  std::vector<double> values;
  std::istringstream words(cell);
  for (double us = 0; words >> us;) values.push_back(us / kPerMillisecond);
  return values;
}

/// The measured times of the stages of a pipeline, in milliseconds.
struct StageTimes {
  std::vector<double> forward;
  std::vector<double> backward;
};

StageTimes times_of(const CsvTable& table, std::size_t row) {
  return {.forward = milliseconds(table.cell(row, "forward_us")),
          .backward = milliseconds(table.cell(row, "backward_us"))};
}

/// Returns the time of the input layer and the output layer. It is the time of the first and the last stage
/// together, minus the time of two stages between them.
double time_of_ends(const std::vector<double>& stages) {
  const double ends = stages.front() + stages.back();
  const double others = std::accumulate(stages.begin(), stages.end(), 0.0) - ends;
  return ends - 2 * others / static_cast<double>(stages.size() - 2);
}

/// Returns the times of S and T, the passes of the divided output layer, on each rank. Each rank gets an
/// equal part of the time of both end layers. This time comes from the measured pipeline that has the same
/// vocabulary and undivided end layers.
UnitTimes slice_of(const CsvTable& table, std::size_t row) {
  for (std::size_t base = 0; base < table.row_count(); ++base) {
    if (table.cell(base, "method") != "base" || table.cell(base, "vocab") != table.cell(row, "vocab"))
      continue;
    const StageTimes whole = times_of(table, base);
    const auto ranks = static_cast<double>(whole.forward.size());
    return {.forward = time_of_ends(whole.forward) / ranks, .backward = time_of_ends(whole.backward) / ranks};
  }
  throw std::logic_error("stage_times has no undivided row for each vocabulary");
}

/// Returns the times of S and T if S also computes the gradient of the input. This gradient takes half of the
/// time of T.
UnitTimes with_input_gradient(UnitTimes slice) {
  slice.backward /= 2;
  slice.forward += slice.backward;
  return slice;
}

/// Returns the schedule of a row. The methods `vocab` and `synctwice` divide the output layer.
std::string schedule_of(const std::string& method) {
  if (method == "vocab") return "1f1b-vocab-2";
  return method == "synctwice" ? "1f1b-vocab-1" : "1f1b";
}

double predicted_ms(const CsvTable& table, std::size_t row) {
  const StageTimes times = times_of(table, row);
  const std::string schedule = schedule_of(table.cell(row, "method"));
  const Shape shape{.stages = static_cast<std::int32_t>(times.forward.size()),
                    .microbatches = std::stoi(table.cell(row, "M"))};
  std::vector<UnitTimes> stages;
  stages.reserve(2 * times.forward.size() + 1);
  for (std::size_t stage = 0; stage < times.forward.size(); ++stage)
    stages.push_back({.forward = times.forward[stage], .backward = times.backward.at(stage)});
  const ExtraStages extra = extra_stages_of(schedule);
  if (extra != ExtraStages::none) {
    const UnitTimes slice = slice_of(table, row);
    stages.insert(stages.end(), times.forward.size(),
                  extra == ExtraStages::output_slices_inputs ? with_input_gradient(slice) : slice);
    stages.push_back({.forward = 0, .backward = 0, .recompute = 0});
  }
  return makespan_units(predicted_run(schedule, shape, stages));
}

}  // namespace

std::vector<ReproducedFigure> reproduce_stage_times() {
  const CsvTable table = measured_stages();
  std::vector<ReproducedFigure> figures;
  double sum = 0;
  std::size_t plain = 0;
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    const std::string what = fmt::format("{}: ms an iteration", table.cell(row, "case"));
    const double measured = table.positive(row, "iteration_ms").value();
    const double predicted = predicted_ms(table, row);
    if (schedule_of(table.cell(row, "method")) != "1f1b") {
      // The prediction lacks the exchanges between all ranks, and the passes S and T were not measured alone.
      // It is therefore only a lower bound of the measured time.
      figures.push_back(at_most(what, measured, predicted));
      continue;
    }
    ++plain;
    sum += std::abs(predicted / measured - 1);
    figures.push_back(equal(Tolerance::ratio, what, measured, predicted));
  }
  figures.push_back(shown("mean error of the rows of plain 1F1B, %", 100 * sum / static_cast<double>(plain)));
  return figures;
}

}  // namespace penstock
