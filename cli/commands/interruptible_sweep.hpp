#pragma once
// A sweep that an interrupt ends at once. Used by sweep_command.cpp.

#include "cli/interrupt.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {

/// Returns sweep(), or the rows that are done when an interrupt comes. Points that are still under way are
/// then left behind on their threads, so the program has to end by the interrupt, without an exit(). The
/// grid's `stopped` is not called.
Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid);

}  // namespace penstock
