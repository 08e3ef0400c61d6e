#pragma once
// Ctrl-C in the midst of long work that can be kept: the first one asks it to stop, a second one ends the
// program.

#include <array>
#include <csignal>

namespace penstock {

/// While one lives, SIGINT and SIGTERM are noted instead of ending the program, unless they are ignored. At
/// most one at a time.
class InterruptNoted {
 public:
  InterruptNoted();
  ~InterruptNoted();
  InterruptNoted(const InterruptNoted&) = delete;
  InterruptNoted& operator=(const InterruptNoted&) = delete;

  /// May be called from any thread.
  bool came() const;
  /// Ends the program by the signal that came, so that whoever started it sees that; returns where none did.
  void end_if_it_came();

 private:
  std::array<struct sigaction, 2> before_{};
};

}  // namespace penstock
