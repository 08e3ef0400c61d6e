// Children are forked without exec, so that they have the program and its lists without reading anything
// again. Three holds keep them from outliving a run: the kernel kills them when the parent's thread ends
// (PR_SET_PDEATHSIG), the destructor kills and reaps what is left, and those that still wait for the port see
// the pipe close.

#include "backend/process/child_processes.hpp"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill() is POSIX's
#include <string.h>  // NOLINT(modernize-deprecated-headers): strsignal() is POSIX's
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#ifdef __linux__
#include <linux/prctl.h>
#include <sys/prctl.h>
#endif

#include <fmt/format.h>
#include <tl/expected.hpp>

// <sys/wait.h> has what is asked of <cstdlib> here.
// NOLINTBEGIN(misc-include-cleaner)

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kGrace(100);

/// Nobody stops a child that was stopped itself when its parent dies.
void end_with_parent(pid_t parent) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it has died before
#else
  static_cast<void>(parent);
#endif
}

std::string words_of(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("its process was killed by signal {} ({})", signal, strsignal(signal));
  }
  return fmt::format("its process ended with status {}", WEXITSTATUS(status));
}

}  // namespace

ChildProcesses::~ChildProcesses() {
  // All are told before any is waited for: they end at the same time, not one after the other.
  for (const Child& child : children_) {
    if (!child.status) kill(child.process, SIGKILL);
  }
  for (Child& child : children_) {
    int status = 0;
    while (!child.status && waitpid(child.process, &status, 0) < 0 && errno == EINTR) continue;
  }
}

tl::expected<void, std::string> ChildProcesses::start(const std::function<int()>& work) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    return tl::unexpected(
        fmt::format("cannot start the process of rank {}: {}", children_.size(), std::strerror(errno)));
  }
  if (child == 0) {
    end_with_parent(parent);
    int status = 1;
    try {
      status = work();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the status says it
    }
    _exit(status);  // what the parent has buffered and registered is not the child's to write and to run
  }
  children_.push_back({child, std::nullopt});
  return {};
}

std::optional<std::string> ChildProcesses::how_ended(std::int32_t number) {
  Child& child = children_[static_cast<std::size_t>(number)];
  int status = 0;
  if (!child.status && waitpid(child.process, &status, WNOHANG) == child.process) child.status = status;
  if (!child.status) return std::nullopt;
  return words_of(*child.status);
}

bool ChildProcesses::all_have_ended() {
  bool all = true;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    all &= how_ended(static_cast<std::int32_t>(i)).has_value();
  }
  return all;
}

void ChildProcesses::end_all() {
  // They have been told over their sockets; most end by themselves and can say how.
  const auto until = std::chrono::steady_clock::now() + kGrace;
  while (!all_have_ended() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (Child& child : children_) {
    if (child.status) continue;
    kill(child.process, SIGKILL);
    int status = 0;
    while (waitpid(child.process, &status, 0) < 0 && errno == EINTR) continue;
    child.status = status;
  }
}

PortPipe::PortPipe() {
  if (pipe(ends_.data()) != 0) ends_ = {-1, -1};
}

PortPipe::~PortPipe() {
  close_end(0);
  close_end(1);
}

void PortPipe::close_end(std::size_t end) {
  if (ends_[end] >= 0) close(ends_[end]);
  ends_[end] = -1;
}

void PortPipe::write(std::uint16_t port, std::int32_t readers) {
  // Two bytes are written and read as one: shorter than what a pipe may cut (PIPE_BUF).
  for (std::int32_t i = 0; i < readers; ++i) {
    while (::write(ends_[1], &port, sizeof(port)) < 0 && errno == EINTR) continue;
  }
}

std::optional<std::uint16_t> PortPipe::read() {
  // Our own copy of the writing end: while it is open the pipe would never report that the parent has gone.
  close_end(1);
  std::uint16_t port = 0;
  ssize_t got = 0;
  do {
    got = ::read(ends_[0], &port, sizeof(port));
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(port)) return std::nullopt;
  return port;
}

}  // namespace penstock

// NOLINTEND(misc-include-cleaner)
