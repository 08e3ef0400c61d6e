// Every point is a copy of the scenario with other numbers; points run in parallel and each writes its own
// row, so the order of the rows does not depend on the threads.

#include "sim/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include "report/result.hpp"
#include "report/sweep.hpp"
#include "report/units.hpp"
#include "scenarios/scenario.hpp"
#include "schedules/generators.hpp"
#include "sim/engines.hpp"
#include "sim/simulate.hpp"

namespace penstock {
namespace {

struct Point {
  std::string schedule;
  std::optional<std::int32_t> stages;
  std::optional<std::int32_t> microbatches;
};

std::vector<Point> points_of(const Scenario& scenario, const SweepGrid& grid) {
  const auto or_own = [](const std::vector<std::int32_t>& numbers) {
    std::vector<std::optional<std::int32_t>> values(numbers.begin(), numbers.end());
    if (values.empty()) values.emplace_back();
    return values;
  };
  std::vector<std::string> schedules = grid.schedules;
  if (schedules.empty()) schedules.push_back(scenario.schedule);
  std::vector<Point> points;
  for (const std::string& schedule : schedules) {
    const ScheduleInfo* known = find_schedule(schedule);
    const std::string name(known != nullptr ? known->name : schedule);
    for (const auto& stages : or_own(grid.stages)) {
      for (const auto& microbatches : or_own(grid.microbatches))
        points.push_back({name, stages, microbatches});
    }
  }
  return points;
}

Scenario scenario_at(const Scenario& base, const Point& point, HeldBatch held) {
  Scenario scenario = base;
  scenario.schedule = point.schedule;
  if (point.stages) scenario.shape.stages = *point.stages;
  if (!point.microbatches) return scenario;
  scenario.batch.microbatches = *point.microbatches;
  (held == HeldBatch::global_batch ? scenario.batch.micro_batch_size : scenario.batch.global_batch_size)
      .reset();
  return scenario;
}

/// idle_over_total on equal stages without communication, where the schedule has a formula.
std::optional<double> closed_form_bubble(const std::string& schedule, const Shape& shape,
                                         std::int32_t microbatches) {
  const double k = shape.stages;
  const double m = microbatches;
  if (schedule == "naive") return 1 - 1 / k;
  if (schedule == "gpipe" || schedule == "1f1b") return (k - 1) / (m + k - 1);
  if (schedule == "interleaved") return (k - 1) / (shape.virtual_stages * m + k - 1);
  return std::nullopt;
}

std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

void add_memory_verdict(SweepRow& row, const Result& result) {
  for (const RankReport& rank : result.ranks) {
    if (rank.memory.peak_bytes > row.peak_bytes || rank.rank == 0) {
      row.peak_bytes = rank.memory.peak_bytes;
      row.peak_rank = rank.rank;
    }
  }
  for (const RankReport& rank : result.ranks) {
    if (!rank.memory.out_of_memory()) continue;
    row.status = SweepStatus::out_of_memory;
    row.reason = fmt::format("rank {} needs {}, its device has {}", rank.rank,
                             format_bytes(rank.memory.peak_bytes), format_bytes(*rank.memory.capacity));
    return;
  }
}

void add_figures(SweepRow& row, const Scenario& scenario, const Result& result) {
  row.microbatches = result.program.microbatches / std::max(1, scenario.shape.iterations);
  if (result.program.iterations > 1) row.microbatches = result.program.microbatches;
  row.micro_batch_size = result.throughput.samples / result.program.microbatches / result.program.iterations;
  row.global_batch_size = result.throughput.samples_per_update;
  row.makespan_ns = result.makespan_ns;
  row.bubble = result.bubble;
  row.closed_form_bubble = closed_form_bubble(row.schedule, scenario.shape, row.microbatches);
  row.samples_per_second = result.throughput.samples_per_second;
  row.steady_samples_per_second = result.throughput.steady_samples_per_second;
  row.samples_per_update = result.throughput.samples_per_update;
  add_memory_verdict(row, result);
}

SweepRow row_at(const Scenario& scenario, Engine engine) {
  SweepRow row{.schedule = scenario.schedule,
               .stages = scenario.shape.stages,
               .virtual_stages = scenario.shape.virtual_stages,
               .microbatches = static_cast<std::int32_t>(scenario.batch.microbatches.value_or(1)),
               .micro_batch_size = {},
               .global_batch_size = {},
               .reason = {},
               .bubble = {},
               .closed_form_bubble = {},
               .steady_samples_per_second = {}};
  const auto result = simulate_scenario(scenario, {.engine = engine, .memory = {.samples = false}});
  if (result) {
    add_figures(row, scenario, *result);
    return row;
  }
  if (scenario.batch.micro_batch_size) {
    row.micro_batch_size = static_cast<double>(*scenario.batch.micro_batch_size);
  }
  if (scenario.batch.global_batch_size) {
    row.global_batch_size = static_cast<double>(*scenario.batch.global_batch_size);
  }
  row.status = result.error().invalid ? SweepStatus::failed : SweepStatus::skipped;
  row.reason = first_line(result.error().message);
  if (row.reason.starts_with(scenario.file + ": ")) row.reason.erase(0, scenario.file.size() + 2);
  return row;
}

}  // namespace

HeldBatch default_held_batch(const Scenario& scenario) {
  return scenario.batch.global_batch_size ? HeldBatch::global_batch : HeldBatch::micro_batch;
}

Sweep sweep(const Scenario& scenario, const SweepGrid& grid) {
  const std::vector<Point> points = points_of(scenario, grid);
  Sweep swept{.title = scenario.file, .rows = std::vector<SweepRow>(points.size()), .notes = scenario.notes};
  std::atomic<std::size_t> done = 0;
  tbb::parallel_for(std::size_t{0}, points.size(), [&](std::size_t i) {
    const Scenario here = scenario_at(scenario, points[i], grid.held);
    try {
      swept.rows[i] = row_at(here, grid.engine);
    } catch (const std::exception& failure) {  // out of memory for one point must not lose the others
      swept.rows[i].status = SweepStatus::failed;
      swept.rows[i].reason = failure.what();
    }
    if (grid.progress) grid.progress(++done, points.size());
  });
  return swept;
}

}  // namespace penstock
