#pragma once
// A sweep that an interrupt ends at once. Used by sweep_command.cpp.

#include "cli/interrupt.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {

/// sweep(), to its end or to an interrupt, behind which it has the rows that are done by then. Points that
/// are still under way are left behind on a thread of their own, so the program has to end by the interrupt;
/// nothing of the grid is called any more.
Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid);

}  // namespace penstock
