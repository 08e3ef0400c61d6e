// Measured stages, simulated: what a pipeline makes of times that were taken stage by stage, held against the
// iteration that was measured as a whole. The file is scenarios/library/runs/stage_times.csv.

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
#include "sim/published/library_texts.hpp"
#include "sim/published/reproduce.hpp"
#include "sim/published/reproduce_runs.hpp"
#include "text/csv_table.hpp"

namespace penstock {
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
