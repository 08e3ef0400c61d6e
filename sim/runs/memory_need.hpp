#pragma once
// What a stored run takes of this machine's memory, known before it is taken.

#include <optional>
#include <string>

#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Bytes of the machine that nobody uses; nothing where it does not say.
std::optional<Bytes> available_memory();
/// Bytes that this process can still have: three quarters of those, and no more than its bound on addresses
/// leaves (ulimit -v).
std::optional<Bytes> memory_within_reach();

/// Why a stored run of so many compute actions does not fit in so many bytes; nothing where it may.
std::optional<std::string> memory_refusal(double compute_actions, const SimulateOptions& options,
                                          Bytes within_reach);
/// The same of a scenario on this machine; nothing of shapes that prepare() refuses.
std::optional<std::string> memory_refusal(const Scenario& scenario, const SimulateOptions& options);

}  // namespace penstock
