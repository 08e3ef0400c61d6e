#pragma once
// Handles Ctrl-C during long work that has useful partial results. The first Ctrl-C asks the work to stop,
// and a second one ends the program.

#include <array>
#include <csignal>

#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/sweep/sweep.hpp"

namespace penstock {

/// While this object exists, SIGINT and SIGTERM are recorded and do not end the program. Signals that the
/// process ignores stay ignored. Only one such object may exist at a time.
class InterruptNoted {
 public:
  InterruptNoted();
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  /// Returns true if a signal has arrived. It may be called from any thread.
  bool came() const;
  /// Ends the program by the signal that has arrived, so that the parent process sees this signal. If no
  /// signal has arrived, returns without effect.
  void end_if_it_came();

 private:
  std::array<struct sigaction, 2> before_{};
};

// Runs a sweep that ends soon after an interrupt (Ctrl-C). sweep_command.cpp uses it.

/// Returns the sweep. If an interrupt comes, it has only the finished points. The threads of the other points
/// then continue. Therefore the program must end by InterruptNoted::end_if_it_came() and not by exit(). The
/// `stopped` function of the grid is not called.
Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid);

}  // namespace penstock
