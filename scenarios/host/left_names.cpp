// Removes files when a signal ends the process. A signal handler may read only globals that are always
// valid. It may also call only a few functions, such as unlink() and raise(). So the names of the files
// are copied into global slots. Each slot has a flag that is set if the file exists:
//
//   free  ->  taken, no file  <->  taken, file      a handler removes the files of the last state
//
// The handlers are installed when the first slot is taken, and removed when the last slot becomes free.
// Tests: tests/scenarios/host_test.cpp.

#include "scenarios/host/left_names.hpp"

#include <linux/limits.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction() is POSIX's
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace penstock {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

struct Slot {
  std::array<char, PATH_MAX> name;
  bool is_taken;  // handlers do not read it
  volatile std::sig_atomic_t is_there;
};

// Four slots are enough: the output of a run, the file beside it, and two files for the run's secret.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): handlers may touch nothing but globals
std::array<Slot, 4> left_slots{};

void remove_and_end(int signal) {
  for (const Slot& slot : left_slots) {
    if (slot.is_there != 0) ::unlink(slot.name.data());
  }
  // SA_RESETHAND has removed the handler at its call, so this signal ends the process as usual.
  static_cast<void>(::raise(signal));
}

bool is_handled_by(int signal, void (*handler)(int)) {
  struct sigaction now{};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == handler;
}

void put_handlers_on() {
  for (const int signal : kEndingSignals) {
    if (!is_handled_by(signal, SIG_DFL)) continue;  // other code handles the signal, or it is ignored
    struct sigaction removing{};
    removing.sa_handler = remove_and_end;
    removing.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(signal, &removing, nullptr);
  }
}

void take_handlers_off() {
  for (const int signal : kEndingSignals) {
    if (is_handled_by(signal, remove_and_end)) ::signal(signal, SIG_DFL);
  }
}

}  // namespace

LeftName::LeftName(const std::string& name) {
  Slot* const free = std::ranges::find(left_slots, false, &Slot::is_taken);
  if (free == left_slots.end() || name.size() >= free->name.size()) return;
  std::ranges::copy(name, free->name.begin());
  free->name[name.size()] = '\0';
  free->is_taken = true;
  slot_ = static_cast<std::size_t>(free - left_slots.begin());
  put_handlers_on();
}

LeftName::LeftName(LeftName&& other) noexcept : slot_(std::exchange(other.slot_, std::nullopt)) {}

LeftName& LeftName::operator=(LeftName&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

LeftName::~LeftName() {
  if (!slot_) return;
  left_slots[*slot_].is_there = 0;
  left_slots[*slot_].is_taken = false;
  if (std::ranges::none_of(left_slots, &Slot::is_taken)) take_handlers_off();
}

void LeftName::is_there() const {
  if (slot_) left_slots[*slot_].is_there = 1;
}

void LeftName::is_gone() const {
  if (slot_) left_slots[*slot_].is_there = 0;
}

}  // namespace penstock
