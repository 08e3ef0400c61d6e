// Forks child processes without exec, so that they inherit the program and need not read it again. No
// child exists after a run. The kernel kills children when the parent's thread ends (PR_SET_PDEATHSIG),
// and the destructor kills and reaps all others. A child without descriptors or memory cannot report over
// its socket. It therefore writes its error into a memory page that it shares with the parent. Tests:
// tests/backend/fault_judge_test.cpp.

#include "backend/process/fault_judge.hpp"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill() is POSIX's
#include <string.h>  // NOLINT(modernize-deprecated-headers): strsignal() is POSIX's
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/index.hpp"

#ifdef __linux__
#include <linux/prctl.h>
#include <sys/prctl.h>
#endif

// The declarations that misc-include-cleaner expects from <cstdlib> are in <sys/wait.h> here.
// NOLINTBEGIN(misc-include-cleaner)

namespace penstock {
namespace {

// The time in which children may exit by themselves after the coordinator has told them to end.
constexpr std::chrono::milliseconds kGrace(100);

/// Makes the kernel kill this process when its parent dies, even if a signal has suspended this process.
void end_with_parent(pid_t parent) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent has already died
#else
  static_cast<void>(parent);
#endif
}

std::string words_of(int status, std::string_view last_words) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("its process was killed by signal {} ({})", signal, strsignal(signal));
  }
  if (!last_words.empty()) return fmt::format("its process could not go on: {}", last_words);
  return fmt::format("its process ended with status {}", WEXITSTATUS(status));
}

/// Returns the text of a system error. If a thread cannot be started, the system's text is only "Resource
/// temporarily unavailable", so the usual reasons are added.
std::string words_of(const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) return error.what();
  return fmt::format(
      "{}, perhaps because no thread can be started: allow more threads (ulimit -u, pids.max) or addresses "
      "(ulimit -v), or take smaller stacks (ulimit -s 512)",
      error.what());
}

}  // namespace

/// The error text of a child, in memory that the parent and the child share.
struct ChildProcesses::LastWords {
  void say(const char* what) { std::snprintf(text.data(), text.size(), "%s", what); }

  std::array<char, 1024> text;
};

void ChildProcesses::Forget::operator()(LastWords* words) const { munmap(words, sizeof(LastWords)); }

ChildProcesses::~ChildProcesses() {
  // All children are killed before the first wait, so that they end at the same time.
  for (const Child& child : children_) {
    if (!child.status) kill(child.process, SIGKILL);
  }
  for (Child& child : children_) {
    int status = 0;
    while (!child.status && waitpid(child.process, &status, 0) < 0 && errno == EINTR) continue;
  }
}

tl::expected<void, std::string> ChildProcesses::start(const std::function<int()>& work) {
  const auto cannot = [this] {
    const int error = errno;
    return tl::unexpected(fmt::format(
        "cannot start the process of rank {}: {}{}", children_.size(), std::strerror(error),
        error == EAGAIN ? "; allow more processes (ulimit -u, pids.max), or take fewer ranks" : ""));
  };
  void* const page =
      mmap(nullptr, sizeof(LastWords), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return cannot();
  std::unique_ptr<LastWords, Forget> words(static_cast<LastWords*>(page));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return cannot();
  if (child == 0) {
    end_with_parent(parent);
    int status = 1;
    try {
      status = work();
    } catch (const std::bad_alloc&) {
      words->say("it has too little memory");
    } catch (const std::system_error& error) {
      words->say(words_of(error).c_str());
    } catch (const std::exception& error) {
      words->say(error.what());
    } catch (...) {
      words->say("an exception of unknown type");
    }
    _exit(status);  // exit() would write the parent's buffers and run its exit handlers a second time
  }
  children_.push_back({.process = child, .words = std::move(words)});
  return {};
}

/// Reads from the kernel whether the child has ended, and stores its state. Never waits.
void ChildProcesses::look_at(Child& child) {
  int status = 0;
  // The child may have been suspended and continued several times since the last call. The last state counts.
  while (!child.status &&
         waitpid(child.process, &status, WNOHANG | WUNTRACED | WCONTINUED) == child.process) {
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
      child.suspended = WIFSTOPPED(status);
    } else {
      child.status = status;
    }
  }
}

std::optional<std::string> ChildProcesses::how_ended(std::int32_t number) {
  Child& child = children_[static_cast<std::size_t>(number)];
  look_at(child);
  if (!child.status) return std::nullopt;
  return words_of(*child.status, child.words->text.data());
}

bool ChildProcesses::is_suspended(std::int32_t number) {
  Child& child = children_[static_cast<std::size_t>(number)];
  look_at(child);
  return child.suspended && !child.status;
}

bool ChildProcesses::all_have_ended() {
  bool all = true;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    all &= how_ended(static_cast<std::int32_t>(i)).has_value();
  }
  return all;
}

void ChildProcesses::end_all() {
  // The coordinator has asked the children to end. Most of them do so, and an exit status says more than a
  // kill. So they get some time before they are killed.
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

}  // namespace penstock

// NOLINTEND(misc-include-cleaner)

namespace penstock {

// Makes socket pairs while the parent forks the ranks one after the other, so that it never has all pairs
// open at once. For two ranks a < b, the pair is made before a is forked. The parent closes a's end after it
// has forked a, and b's end after it has forked b. For a chain of ranks, only one such pair is open at a
// time, in addition to the ends of the coordinator. Tests: tests/backend/process_run_test.cpp.

namespace {

tl::expected<std::array<Descriptor, 2>, std::string> socket_pair(std::int32_t rank) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0)
    return std::array{Descriptor(ends[0]), Descriptor(ends[1])};
  const int error = errno;
  return tl::unexpected(
      fmt::format("cannot connect the process of rank {}: {}{}", rank, std::generic_category().message(error),
                  error == EMFILE ? "; allow more open files (ulimit -n), or take fewer ranks" : ""));
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

int Descriptor::release() { return std::exchange(number_, -1); }

RankSockets::RankSockets(const std::vector<std::vector<std::int32_t>>& peers)
    : peers_(peers), ends_(peers.size()) {}

tl::expected<void, std::string> RankSockets::open_for(std::int32_t rank) {
  auto control = socket_pair(rank);
  if (!control) return tl::unexpected(control.error());
  coordinators_.push_back(std::move((*control)[0]));
  ends_[index(rank)].coordinator = std::move((*control)[1]);
  for (const std::int32_t peer : peers_[index(rank)]) {
    if (peer < rank) continue;  // the socket pair with this peer was made when the peer was forked
    auto pair = socket_pair(rank);
    if (!pair) return tl::unexpected(pair.error());
    ends_[index(rank)].peers[peer] = std::move((*pair)[0]);
    ends_[index(peer)].peers[rank] = std::move((*pair)[1]);
  }
  return {};
}

RankEnds RankSockets::take(std::int32_t rank) {
  RankEnds own = std::move(ends_[index(rank)]);
  // The child closes the ends of other ranks. Otherwise a connection would stay open after the other rank has
  // ended.
  ends_.clear();
  coordinators_.clear();
  return own;
}

void RankSockets::close_ends_of(std::int32_t rank) { ends_[index(rank)] = {}; }

std::vector<Descriptor> RankSockets::take_coordinators() { return std::move(coordinators_); }

MostDescriptors::MostDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) before_ = before;
}

MostDescriptors::~MostDescriptors() {
  rlimit limit{};
  if (before_ == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = before_;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));  // lowering the limit does not close open files
}

}  // namespace penstock
