#pragma once
// Estimates how much of this machine's memory a stored run will need, before it starts.
// scenarios/host/process_limits.hpp finds how much memory the machine has.

#include <optional>
#include <string>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// The largest number of compute actions of a program. prepare() refuses longer programs.
inline constexpr double kMostGenerated = 1LL << 40;

/// Lower bounds of the numbers of compute actions and transfers in a run.
struct ActionCounts {
  double compute = 0;
  double transfers = 0;
};
ActionCounts action_counts(const Scenario& scenario);
ActionCounts action_counts(const Preparation& begun);
ActionCounts action_counts(const Experiment& experiment);

/// Lower bounds of the bytes of memory that a run needs for one compute action and for one transfer.
struct ActionBytes {
  double compute = 0;
  double transfer = 0;
};
double operator*(const ActionCounts& counts, const ActionBytes& each);

/// Returns the bytes of memory that a run by `engine` needs for each action. They are 0 for the stream
/// engine, which stores only loops. `is_on_devices` is true for models on named devices, which need more
/// because their messages have bytes.
ActionBytes action_bytes(RunEngine engine, const Wanted& wanted, bool is_on_devices);

/// Returns the reason why a run that needs `bytes` does not fit in the budget. Returns nothing if it may
/// fit. `counts` are named in the reason.
std::optional<std::string> bytes_refusal(const ActionCounts& counts, double bytes, const Wanted& wanted,
                                         const MemoryBudget& budget);

/// Returns the reason why a run that stores lists and times does not fit in the budget. Returns nothing if
/// it may fit.
std::optional<std::string> memory_refusal(const ActionCounts& counts, const SimulateOptions& options,
                                          const MemoryBudget& budget);
/// Returns the reason why a stored run of a scenario does not fit in this machine's memory, or nothing if it
/// may fit.
std::optional<std::string> memory_refusal(const Scenario& scenario, const SimulateOptions& options);
/// Returns the reason why the lists of a scenario's program do not fit in this machine's memory, or nothing
/// if they may fit.
std::optional<std::string> lists_refusal(const Scenario& scenario);
/// Returns the reason why a check of a scenario does not fit in this machine's memory, or nothing if it may
/// fit. A check stores no times.
std::optional<std::string> check_refusal(const Scenario& scenario);

}  // namespace penstock
