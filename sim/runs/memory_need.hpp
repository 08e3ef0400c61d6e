#pragma once
// What a stored run takes of this machine's memory, known before it is taken. What there is
// of it: scenarios/host/process_limits.hpp.

#include <optional>
#include <string>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Compute actions: what is longer is refused as a shape.
inline constexpr double kMostGenerated = 1LL << 40;

/// The actions of a run, from below.
struct ActionCounts {
  double compute = 0;
  double transfers = 0;
};
ActionCounts action_counts(const Scenario& scenario);
ActionCounts action_counts(const Preparation& begun);
ActionCounts action_counts(const Experiment& experiment);

/// The bytes of memory that a compute action and a transfer take, from below.
struct ActionBytes {
  double compute = 0;
  double transfer = 0;
};
double operator*(const ActionCounts& counts, const ActionBytes& each);

/// Returns what a run by that engine takes for each action; nothing for a stream, whose memory is that of the
/// loops. Models on named devices have messages with bytes.
ActionBytes action_bytes(RunEngine engine, const Wanted& wanted, bool is_on_devices);

/// Returns why a run that takes so many bytes does not fit in the budget; nothing where it may.
std::optional<std::string> bytes_refusal(const ActionCounts& counts, double bytes, const Wanted& wanted,
                                         const MemoryBudget& budget);

/// Returns why a stored run of so many actions does not fit in the budget, or nothing if it may.
std::optional<std::string> memory_refusal(const ActionCounts& counts, const SimulateOptions& options,
                                          const MemoryBudget& budget);
/// Returns why a stored run of a scenario does not fit on this machine, or nothing if it may.
std::optional<std::string> memory_refusal(const Scenario& scenario, const SimulateOptions& options);
/// Returns why the lists of a scenario's program do not fit on this machine, or nothing if they may.
std::optional<std::string> lists_refusal(const Scenario& scenario);
/// Returns why a check of a scenario, which stores no times, does not fit on this machine, or nothing.
std::optional<std::string> check_refusal(const Scenario& scenario);

}  // namespace penstock
