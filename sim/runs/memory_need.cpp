// Estimates the memory of a run from lower bounds of the bytes that a compute action and a transfer need. The
// bounds are measured: they are the resident memory of runs with some million actions, rounded down:
//
//                              compute action   transfer
//   the lists alone                        50         50
//   program, channels, walk               160        120
//   event engine's states                 120        590
//   spans of a timeline                    60
//   run by placement rounds, with spans   115        100
//     the same for a model on devices     150         80
//   tape for one point of a sweep          30         30
//     the same for a model on devices      30        230
//   a whole check                          70         70
//
// With K ranks, a compute action has (K-1)/K x 2/3 transfers on average. One action in K is at an end of the
// pipeline and sends nothing. Weight gradients, one action in three, send nothing either. A run that does not
// fit is refused before it starts, because otherwise it would fail only after minutes. The message states the
// needed and the available memory.

#include "sim/runs/simulate.hpp"

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "report/print/units.hpp"
#include "scenarios/host/process_limits.hpp"
#include "scenarios/prepare/cut.hpp"  // IWYU pragma: keep (its members are read)
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/plan_run.hpp"

namespace penstock {
namespace {

constexpr ActionBytes kListedBytes = {.compute = 50, .transfer = 50};
constexpr ActionBytes kStoredBytes = {.compute = 160, .transfer = 120};
constexpr ActionBytes kEventBytes = {.compute = 120, .transfer = 590};
constexpr ActionBytes kTimelineBytes = {.compute = 60, .transfer = 0};
constexpr ActionBytes kTurnBytes = {.compute = 115, .transfer = 100};
constexpr ActionBytes kDeviceTurnBytes = {.compute = 150, .transfer = 80};
constexpr ActionBytes kRowBytes = {.compute = 30, .transfer = 30};
// Messages between named devices have bytes. A peak of memory then depends on the times of the whole tape.
constexpr ActionBytes kDeviceRowBytes = {.compute = 30, .transfer = 230};
constexpr ActionBytes kCheckedBytes = {.compute = 70, .transfer = 70};
// The size of a run that is accepted on every machine: 64 MiB.
constexpr double kAnyMachinesBytes = 1 << 26;

double stored_bytes(const ActionCounts& counts, const SimulateOptions& options) {
  double bytes = counts * kStoredBytes;
  if (options.engine == Engine::event) bytes += counts * kEventBytes;
  if (options.timeline == TimelineKept::all) bytes += counts * kTimelineBytes;
  return bytes;
}

/// Returns the reason why a run with these action counts does not fit in the memory budget, or nothing if it
/// fits. Accepts programs that fit on every machine, and those that prepare() refuses anyway, without asking
/// for the budget.
std::optional<std::string> refusal_of(const ActionCounts& counts, double bytes, const MemoryBudget& budget,
                                      bool has_timeline = false) {
  if (!budget || bytes < kAnyMachinesBytes || counts.compute > kMostGenerated) return std::nullopt;
  return lack_of_memory(fmt::format("{:.3g} compute actions", counts.compute), bytes, budget(),
                        has_timeline ? "take fewer stages, microbatches or iterations, or no timeline"
                                     : "take fewer stages, microbatches or iterations");
}

/// Returns the numbers of compute actions and transfers of a run with `compute` compute actions. With the
/// schedule data-parallel, there are no transfers.
ActionCounts counts_of(double compute, double ranks, std::string_view schedule_name) {
  // With the schedule data-parallel each rank has all stages, so there are no messages between stages.
  const ScheduleInfo* schedule = find_schedule(schedule_name);
  if (schedule != nullptr && schedule->name == "data-parallel") return {.compute = compute, .transfers = 0};
  return {.compute = compute, .transfers = compute * (ranks - 1) / ranks * 2 / 3};
}

ActionCounts counts_of(const Scenario& scenario, double compute) {
  const double ranks = scenario.program ? scenario.program->rank_count() : scenario.shape.stages;
  return counts_of(compute, ranks, scenario.schedule);
}

ActionBytes operator+(const ActionBytes& a, const ActionBytes& b) {
  return {.compute = a.compute + b.compute, .transfer = a.transfer + b.transfer};
}

}  // namespace

double operator*(const ActionCounts& counts, const ActionBytes& each) {
  return counts.compute * each.compute + counts.transfers * each.transfer;
}

ActionCounts action_counts(const Scenario& scenario) {
  return counts_of(scenario, compute_actions(scenario));
}

ActionCounts action_counts(const Preparation& begun) {
  return counts_of(begun.copy->scenario, begun.compute_actions);
}

ActionCounts action_counts(const Experiment& experiment) {
  const Program& program = experiment.program;
  return counts_of(experiment.compute_actions, program.rank_count(), program.schedule);
}

ActionBytes action_bytes(RunEngine engine, const Wanted& wanted, bool is_on_devices) {
  const bool has_spans = wanted.figures == WantedFigures::all || wanted.timeline;
  const ActionBytes stored = wanted.timeline ? kStoredBytes + kTimelineBytes : kStoredBytes;
  switch (engine) {
    case RunEngine::stream:
      return {};
    case RunEngine::turns:
      if (has_spans) return is_on_devices ? kDeviceTurnBytes : kTurnBytes;
      return is_on_devices ? kDeviceRowBytes : kRowBytes;
    case RunEngine::tape:
      return stored;
    case RunEngine::event:
      return stored + kEventBytes;
  }
  return {};
}

std::optional<std::string> bytes_refusal(const ActionCounts& counts, double bytes, const Wanted& wanted,
                                         const MemoryBudget& budget) {
  return refusal_of(counts, bytes, budget, wanted.timeline);
}

std::optional<std::string> memory_refusal(const ActionCounts& counts, const SimulateOptions& options,
                                          const MemoryBudget& budget) {
  return refusal_of(counts, stored_bytes(counts, options), budget, options.timeline == TimelineKept::all);
}

std::optional<std::string> memory_refusal(const Scenario& scenario, const SimulateOptions& options) {
  return memory_refusal(action_counts(scenario), options, memory_within_reach);
}

std::optional<std::string> lists_refusal(const Scenario& scenario) {
  const ActionCounts counts = action_counts(scenario);
  return refusal_of(counts, counts * kListedBytes, memory_within_reach);
}

std::optional<std::string> check_refusal(const Scenario& scenario) {
  const ActionCounts counts = action_counts(scenario);
  return refusal_of(counts, counts * kCheckedBytes, memory_within_reach);
}

}  // namespace penstock
