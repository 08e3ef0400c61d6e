#pragma once
// Handles Ctrl-C during long work that has useful partial results. The first Ctrl-C asks the work to stop,
// and a second one ends the program.

#include <array>
#include <csignal>

#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/sweep/sweep.hpp"

namespace penstock {

/// An object during whose lifetime SIGINT and SIGTERM are recorded and do not end the program. Signals that
/// the process ignores stay ignored. Only one such object may exist at a time.
class InterruptNoted {
 public:
  InterruptNoted();
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  /// Returns true if a signal has arrived. It may be called from any thread.
  bool came() const;
  /// Ends the program by the signal that has arrived, so that the parent process sees this signal. Does
  /// nothing if no signal has arrived.
  void end_if_it_came();

 private:
  std::array<struct sigaction, 2> before_{};
};

// Runs a sweep that ends soon after an interrupt (Ctrl-C). sweep_command.cpp uses it.

/// Computes and returns the sweep. If an interrupt comes, the sweep has only the finished points. The
/// threads of the other points then continue. Therefore the program must end by
/// InterruptNoted::end_if_it_came() and not by exit(). The function does not call the `stopped` function of
/// the grid.
Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid);

}  // namespace penstock
