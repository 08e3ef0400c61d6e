#pragma once
// Handles Ctrl-C during long work whose result can be used partly. The first one asks the work to stop; a
// second one ends the program.

#include <array>
#include <csignal>

namespace penstock {

/// While an object exists, SIGINT and SIGTERM are noted instead of ending the program, unless they are
/// ignored. Only one object may exist at a time.
class InterruptNoted {
 public:
  InterruptNoted();
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  /// Returns whether a signal has come. May be called from any thread.
  bool came() const;
  /// Ends the program by the signal that came, so that the parent process sees it. Returns if none came.
  void end_if_it_came();

 private:
  std::array<struct sigaction, 2> before_{};
};

}  // namespace penstock
