#pragma once
// A sweep that an interrupt (Ctrl-C) ends at once. sweep_command.cpp uses it.

#include "cli/interrupt.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {

/// Returns the sweep, or only its finished rows if an interrupt comes. Unfinished points then continue on
/// their threads. Therefore the program must end by InterruptNoted::end_if_it_came() and not by exit(). The
/// `stopped` function of the grid is not called.
Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid);

}  // namespace penstock
