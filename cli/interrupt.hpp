#pragma once
// Handles Ctrl-C during long work that has useful partial results. The first Ctrl-C asks the work to stop,
// and a second one ends the program.

#include <array>
#include <csignal>

#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {

/// A guard that records SIGINT and SIGTERM while it exists, instead of letting them end the program. Signals
/// that the process ignores stay ignored. Only one guard may exist at a time.
class InterruptNoted {
 public:
  InterruptNoted();
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  /// Returns true if a signal has arrived. It may be called from any thread.
  bool came() const;
  /// Ends the program by the signal that arrived, so that the parent process sees the signal. Returns if no
  /// signal has arrived.
  void end_if_it_came();

 private:
  std::array<struct sigaction, 2> before_{};
};

// A sweep that an interrupt (Ctrl-C) ends at once. sweep_command.cpp uses it.

/// Returns the sweep, or only its finished rows if an interrupt comes. Unfinished points then continue on
/// their threads. Therefore the program must end by InterruptNoted::end_if_it_came() and not by exit(). The
/// `stopped` function of the grid is not called.
Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid);

}  // namespace penstock
