#pragma once
// Runs programs in processes for tests: programs in which one rank is at fault, and ranks that a test starts
// itself.

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/process/process_execution.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/rules/generators.hpp"
#include "tests/backend/execution.hpp"
#include "tests/backend/faulty_module.hpp"

namespace penstock {

inline bool has_children() { return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD; }

inline std::ptrdiff_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

/// A program in which every action blocks its process for a while, and one action is at fault.
class FaultyRun {
 public:
  explicit FaultyRun(const Program& program, Ns action_ns = 1'000'000)
      : program_(lowered(program)),
        costs_(free_costs(program_)),
        flat_(flatten(program_, costs_, {.channels = {}, .iterations = program_.iterations})) {
    for (StageCost& cost : costs_.stages) cost.forward_ns = cost.backward_ns = action_ns;
  }

  FaultyRun& with_fault(std::int32_t rank, std::function<void()> fault, int at) {
    rank_ = rank;
    fault_ = std::move(fault);
    at_ = at;
    return *this;
  }

  /// Returns an execution that refers to this object. By default, the time to join is so long that a busy
  /// machine keeps it. Only tests with a missing process have a shorter time.
  ProcessExecution execution(std::chrono::milliseconds deadline,
                             std::chrono::milliseconds patience = std::chrono::seconds(60)) const {
    return {.program = program_,
            .flat = flat_,
            .modules = [this](std::int32_t rank, const Clock& clock) { return modules(rank, clock); },
            .deadline = deadline,
            .patience = patience};
  }

  /// Executes the program in children of this process and returns its error, which is empty if the run ends
  /// well.
  ExecutionError error(std::chrono::milliseconds deadline) {
    const std::ptrdiff_t files_before = open_files();
    const auto begin = std::chrono::steady_clock::now();
    auto timelines = execute_in_processes(execution(deadline));
    took_ = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    EXPECT_EQ(open_files(), files_before);
    return timelines ? ExecutionError{} : std::move(timelines.error());
  }

  std::chrono::milliseconds took() const { return took_; }

 private:
  StageModules modules(std::int32_t rank, const Clock& clock) const {
    StageModules modules = occupy_modules(program_, costs_, clock, {});
    if (rank != rank_) return modules;
    for (auto& module : modules[static_cast<std::size_t>(rank)]) {
      if (module) module = std::make_unique<FaultyModule>([this](const std::stop_token&) { fault_(); }, at_);
    }
    return modules;
  }

  Program program_;
  CostTable costs_;
  FlatProgram flat_;
  std::int32_t rank_ = -1;
  std::function<void()> fault_;
  int at_ = 0;
  std::chrono::milliseconds took_{};
};

inline Program one_f_one_b_of(std::int32_t stages) {
  return *generate("1f1b", {.stages = stages, .microbatches = 8});
}

/// A process of the test, and the text that it returns.
class RankProcess {
 public:
  /// Forks a process that runs `work` and returns its text.
  explicit RankProcess(const std::function<std::string()>& work) {
    EXPECT_EQ(pipe(ends_.data()), 0);
    process_ = fork();
    if (process_ != 0) return;
    const std::string words = work();
    _exit(write(ends_[1], words.data(), words.size()) < 0 ? 1 : 0);
  }
  /// Forks a process that takes part in a run as one rank. Its text is the error message, or "ended well".
  RankProcess(const ProcessExecution& execution, const ProcessPlace& place)
      : RankProcess([&] {
          const auto ended = execute_as_rank(execution, place);
          return ended ? "ended well" : ended.error().message;
        }) {}
  RankProcess(const FaultyRun& run, const ProcessPlace& place, std::chrono::milliseconds deadline,
              std::chrono::milliseconds patience = std::chrono::seconds(60))
      : RankProcess(run.execution(deadline, patience), place) {}
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    for (const int end : ends_) close(end);
  }

  pid_t process() const { return process_; }
  std::string words() {
    waitpid(process_, nullptr, 0);
    std::array<char, 4096> buffer{};
    close(std::exchange(ends_[1], dup(ends_[0])));
    const auto got = read(ends_[0], buffer.data(), buffer.size());
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }
  bool has_ended_within(std::chrono::milliseconds limit) const {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < until) {
      siginfo_t state{};  // looks at the state without reaping the child
      waitid(P_PID, static_cast<id_t>(process_), &state, WEXITED | WNOHANG | WNOWAIT);
      if (state.si_pid == process_) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

 private:
  std::array<int, 2> ends_{};
  pid_t process_ = 0;
};

/// Returns the number of runs with a random fault. PENSTOCK_KILLS=1000 makes a long test.
inline std::uint32_t kills_or(std::uint32_t usual) {
  const char* given = std::getenv("PENSTOCK_KILLS");
  return given == nullptr ? usual : static_cast<std::uint32_t>(std::stoul(given));
}

/// A loopback port that no other process can use while this object exists.
class HeldPort {
 public:
  HeldPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  ~HeldPort() { close(socket_); }

  std::uint16_t port() const { return port_; }
  /// Waits until a process connects, sends it these bytes, and closes the connection.
  void end_next(const std::vector<std::uint8_t>& words = {}) const {
    const int caller = accept(socket_, nullptr, nullptr);
    EXPECT_EQ(send(caller, words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
    close(caller);
  }

 private:
  int socket_;
  std::uint16_t port_ = 0;
};

inline ProcessPlace place_of(std::int32_t rank, std::uint16_t port) { return {rank, {.port = port}}; }

}  // namespace penstock
