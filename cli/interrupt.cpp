// Records SIGINT and SIGTERM. The handler only stores the signal's number, because a handler may safely do
// little else. With SA_RESETHAND, a second signal ends the program. If a signal was ignored when the program
// started (as shells do for Ctrl-C with `&`), it stays ignored.

#include "cli/interrupt.hpp"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction() is POSIX's

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

namespace penstock {
namespace {

constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};

// A signal handler may only use lock-free variables.
std::atomic<int> noted_signal = 0;  // NOLINT(readability-identifier-naming): no constant
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int number) { noted_signal = number; }

}  // namespace

InterruptNoted::InterruptNoted() {
  noted_signal = 0;  // clears the signal of an earlier object
  struct sigaction action{};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptNoted::~InterruptNoted() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool InterruptNoted::came() const { return noted_signal != 0; }

void InterruptNoted::end_if_it_came() {
  if (!came()) return;
  // The default action ends the program by the signal. Then a shell sees status 130 and stops its script, and
  // make removes its target.
  std::signal(noted_signal, SIG_DFL);
  std::raise(noted_signal);
}

}  // namespace penstock
