#pragma once
// What a stored run takes of this machine's memory, known before it is taken. What there is
// of it: scenarios/host/memory_room.hpp.

#include <optional>
#include <string>

#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Of a run, from below.
struct ActionCounts {
  double compute = 0;
  double transfers = 0;
};
ActionCounts action_counts(const Scenario& scenario);

/// Why a stored run of so many actions does not fit in so many bytes; nothing where it may.
std::optional<std::string> memory_refusal(const ActionCounts& counts, const SimulateOptions& options,
                                          Bytes within_reach);
/// The same of a scenario on this machine; nothing of shapes that prepare() refuses.
std::optional<std::string> memory_refusal(const Scenario& scenario, const SimulateOptions& options);
/// The same of a run by turns (turn_run.hpp), which takes less.
std::optional<std::string> turns_refusal(const Scenario& scenario);
/// The same of a row of a sweep (row_run.hpp), which takes less still.
std::optional<std::string> row_refusal(const Scenario& scenario);
/// The same of its program's lists alone.
std::optional<std::string> lists_refusal(const Scenario& scenario);
/// The same of a check, which keeps no times.
std::optional<std::string> check_refusal(const Scenario& scenario);

}  // namespace penstock
