// Starts the ranks of a run. Without a launcher, this process forks the ranks and runs the coordinator. With
// a launcher, each rank is already a process, and rank 0 runs the coordinator in a second thread:
//
//     coordinator (rank 0's process)  <- hello, digest, progress, times --  worker 0 .. K-1
//                                     -- go, verdict, end              ->
//
// Forked ranks are connected by socket pairs, which no other process can reach. Launched ranks are connected
// by TCP, so every message proves that its sender knows the secret of the job. Tests:
// tests/backend/process_run_test.cpp.

#include "backend/process/process_execution.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/process_run.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/socket_transport.hpp"
#include "report/print/units.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

tl::unexpected<ExecutionError> failed(std::string message) {
  return tl::unexpected(ExecutionError{.rank = -1, .action = "the start", .message = std::move(message)});
}

}  // namespace

tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_in_processes(
    const ProcessExecution& execution) {
  // Each rank and each pair of connected ranks needs sockets. Their number may exceed the usual limit of open
  // files, so the limit is raised.
  const MostDescriptors many;
  const std::vector<std::vector<std::int32_t>> peers = peers_of_ranks(execution.flat);
  RankSockets sockets(peers);
  ChildProcesses children;
  for (std::int32_t rank = 0; rank < execution.flat.rank_count; ++rank) {
    if (auto opened = sockets.open_for(rank); !opened) return failed(opened.error());
    const auto started = children.start([&] {
      const auto ended = run_worker(execution, rank, sockets.take(rank));
      // The child may not have been able to send its error to the coordinator. The exception therefore
      // carries the error text to the parent, which can read it.
      if (!ended) throw std::runtime_error(ended.error().message);
      return 0;
    });
    if (!started) return failed(started.error());
    // The parent must close the child's ends. Otherwise the connections would stay open after the child has
    // ended.
    sockets.close_ends_of(rank);
  }
  if (execution.forked) execution.forked();
  Coordinator coordinator(execution,
                          {.how_ended = [&](std::int32_t rank) { return children.how_ended(rank); },
                           .is_suspended = [&](std::int32_t rank) { return children.is_suspended(rank); }});
  coordinator.adopt(sockets.take_coordinators());
  auto runs = coordinator.run();
  children.end_all();
  return runs;
}

tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_as_rank(const ProcessExecution& execution,
                                                                       const ProcessPlace& place) {
  const MostDescriptors many;
  if (place.rank != 0) {
    auto ended = run_worker(execution, place);
    if (!ended) return tl::unexpected(std::move(ended.error()));
    return std::vector<ExecutedRun>{};
  }
  Coordinator coordinator(execution, {});
  const auto meeting = coordinator.listen(place);
  if (!meeting) return failed(meeting.error());
  tl::expected<std::vector<ExecutedRun>, ExecutionError> runs;
  {
    // The thread is joined at the end of this block, so `runs` is complete before the function returns.
    const std::jthread coordinating([&] { runs = coordinator.run(); });
    // The worker's error is ignored, because the coordinator reports the same error.
    static_cast<void>(run_worker(execution, *meeting));
  }
  return runs;
}

// Reads the rank and the number of ranks from the environment. A table lists the variables of the four
// supported launchers. It is an error if only some variables of a launcher are set. Otherwise each of eight
// processes could assume that it is the only one and run the whole program. Tests:
// tests/backend/process_run_test.cpp.

namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
};
constexpr std::array kLaunchers = {
    Launcher{"torchrun", "RANK", "WORLD_SIZE"},
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    Launcher{"srun", "SLURM_PROCID", "SLURM_NTASKS"},
    Launcher{"mpiexec", "PMI_RANK", "PMI_SIZE"},
};

const Launcher* launcher_of(const Environment& environment) {
  // The table is searched in its order, and torchrun is the first entry. If torchrun runs in a Slurm
  // allocation, its ranks have the variables of both launchers.
  for (const Launcher& launcher : kLaunchers) {
    if (environment(launcher.rank) != nullptr) return &launcher;
  }
  return nullptr;
}

/// Returns the value of an environment variable as a number. Fails if the text is not a whole number within
/// the range.
tl::expected<std::int32_t, std::string> number(const Environment& environment, const char* name,
                                               Range range) {
  const char* value = environment(name);
  if (value == nullptr) return tl::unexpected(fmt::format("{} is not set", name));
  const std::string_view text(value);
  const auto read = number_of_text<std::int32_t>(text);
  if (read && *read >= range.least && *read <= range.most) return *read;
  return tl::unexpected(fmt::format("{}: expected a number from {} to {}, got \"{}\"", name, range.least,
                                    range.most, shown_name(text)));
}

constexpr std::int32_t kLastPort = 65535;

/// Returns true if torchrun's own store listens on MASTER_PORT.
bool has_agent_store(const Environment& environment) {
  const char* says = environment("TORCHELASTIC_USE_AGENT_STORE");
  return says != nullptr && std::string_view(says) == "True";
}

/// Returns the coordinator's port: PENSTOCK_PORT if it is set, otherwise MASTER_PORT, or the next port if
/// torchrun's store uses MASTER_PORT.
tl::expected<std::uint16_t, std::string> port_of(const Environment& environment, const Launcher& launcher) {
  if (environment("PENSTOCK_PORT") != nullptr) {
    return number(environment, "PENSTOCK_PORT", {1, kLastPort}).map([](std::int32_t port) {
      return static_cast<std::uint16_t>(port);
    });
  }
  if (environment("MASTER_PORT") == nullptr) {
    return tl::unexpected(fmt::format(
        "{} is set, as by {}, but MASTER_PORT is not: give all ranks the same free port by it, or "
        "unset {} to let this process start the others",
        launcher.rank, launcher.name, launcher.rank));
  }
  const bool taken = has_agent_store(environment);
  return number(environment, "MASTER_PORT", {1, taken ? kLastPort - 1 : kLastPort})
      .map([taken](std::int32_t port) { return static_cast<std::uint16_t>(taken ? port + 1 : port); });
}

/// Returns the job's secret from PENSTOCK_SECRET, or an empty text if the variable is not set.
tl::expected<std::string, std::string> secret_of(const Environment& environment) {
  constexpr std::size_t kShortest = 16;
  const char* value = environment("PENSTOCK_SECRET");
  std::string secret = value == nullptr ? "" : value;
  if (value == nullptr || secret.size() >= kShortest) return secret;
  return tl::unexpected(fmt::format(
      "PENSTOCK_SECRET: expected {} characters or more that cannot be guessed (openssl rand -hex 32), got {}",
      kShortest, secret.size()));
}

}  // namespace

std::optional<std::uint16_t> agent_store_port(const Environment& environment) {
  if (!has_agent_store(environment)) return std::nullopt;
  const auto port = number(environment, "MASTER_PORT", {1, kLastPort});
  return port ? std::optional(static_cast<std::uint16_t>(*port)) : std::nullopt;
}

tl::expected<std::optional<LaunchedRank>, std::string> launched_rank(const Environment& environment) {
  constexpr std::int32_t kMostRanks = 1 << 20;
  const Launcher* launcher = launcher_of(environment);
  if (launcher == nullptr) return std::nullopt;
  if (environment(launcher->size) == nullptr) {
    return tl::unexpected(fmt::format(
        "{} is set, as by {}, but {} is not: say by it how many processes there are, or unset {} to let "
        "this process start the others",
        launcher->rank, launcher->name, launcher->size, launcher->rank));
  }
  const auto size = number(environment, launcher->size, {1, kMostRanks});
  if (!size) return tl::unexpected(size.error());
  const auto rank = number(environment, launcher->rank, {0, *size - 1});
  if (!rank) return tl::unexpected(rank.error());
  return LaunchedRank{.rank = *rank, .size = *size, .size_variable = launcher->size};
}

tl::expected<std::optional<LaunchedProcess>, std::string> launched_process(const Environment& environment) {
  const auto launched = launched_rank(environment);
  if (!launched) return tl::unexpected(launched.error());
  if (!*launched) return std::nullopt;
  const auto [rank, size, size_variable] = **launched;
  const bool has_port = environment("MASTER_PORT") != nullptr || environment("PENSTOCK_PORT") != nullptr;
  // A single process in a Slurm allocation, without a port, was not started by a launcher.
  if (size == 1 && !has_port) return std::nullopt;
  const Launcher* launcher = launcher_of(environment);
  const auto port = port_of(environment, *launcher);
  if (!port) return tl::unexpected(port.error());
  const char* address = environment("MASTER_ADDR");
  const auto secret = secret_of(environment);
  if (!secret) return tl::unexpected(secret.error());
  return LaunchedProcess{
      .place = {.rank = rank,
                .coordinator = {.address = address == nullptr ? "127.0.0.1" : address, .port = *port},
                .secret = *secret},
      .world_size = size};
}

tl::expected<std::uint16_t, std::string> port_after(const Endpoint& coordinator) {
  if (coordinator.port < kLastPort) return static_cast<std::uint16_t>(coordinator.port + 1);
  return tl::unexpected(fmt::format(
      "rank 0 needs the port after {}'s, too, and {} is the last one: expected a port of at most {} in "
      "PENSTOCK_PORT or MASTER_PORT",
      to_text(coordinator), kLastPort, kLastPort - 1));
}

tl::expected<std::optional<ProcessPlace>, std::string> launched_place(const Environment& environment,
                                                                      std::int32_t ranks) {
  const auto launched = launched_process(environment);
  if (!launched) return tl::unexpected(launched.error());
  if (!*launched) return std::nullopt;
  if ((*launched)->world_size != ranks) {
    return tl::unexpected(
        fmt::format("the launcher started {} processes but the program has {}; start as many",
                    (*launched)->world_size, format_count(ranks, "rank")));
  }
  return (*launched)->place;
}

}  // namespace penstock
