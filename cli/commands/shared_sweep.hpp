#pragma once
// A sweep whose points processes share. Used by sweep_command.cpp.

#include <optional>
#include <string>

#include "cli/interrupt.hpp"
#include "cli/process_group.hpp"
#include "cli/sweep_progress_file.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {

/// What rank 0 has in the end.
struct SharedSweep {
  Sweep sweep;  ///< of one that could not be ended: the rows of rank 0 and those that the others had sent
  /// Which other process was lost or interrupted, and how many of its points are missing.
  std::optional<std::string> loss{};
};

/// Makes the points that are not known, each process its own, and gathers them in that of rank 0, where each
/// goes into `kept` (null: nowhere) as soon as it comes. Nothing in the others when all is done. An interrupt
/// of any process, the end of one, or its silence for kLongestSilence ends all: rank 0 has what there is then
/// and must end by abandon() or the interrupt, since points are under way on other threads; the others do not
/// return, and end by the interrupt where it was theirs, else with ExitCode::run_failed.
std::optional<SharedSweep> shared_sweep(const ProcessGroup& group, const Scenario& scenario, SweepGrid grid,
                                        SweepProgressFile* kept, InterruptNoted& interrupt);

}  // namespace penstock
