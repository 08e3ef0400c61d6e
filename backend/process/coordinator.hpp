#pragma once
// Brings the workers of a process run together, starts each run at one moment, watches over them, and puts
// their times together. Private to process_execution.cpp.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/rank_sockets.hpp"

namespace penstock {

/// What the parent of the ranks' processes knows of them. Both are empty where somebody else is their parent.
struct RankProcesses {
  /// How a rank's process ended; nothing while it runs.
  std::function<std::optional<std::string>(std::int32_t rank)> how_ended{};
  /// It lives, and has been suspended.
  std::function<bool(std::int32_t rank)> is_suspended{};
};

class Coordinator {
 public:
  /// `execution` must outlive it.
  Coordinator(const ProcessExecution& execution, RankProcesses processes);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();

  /// The workers are at the other ends of these sockets, by rank.
  void adopt(std::vector<Descriptor> workers);
  /// Takes workers at that address from now on that know the secret: the place's, or one that lies in a file
  /// until all have come. Returns rank 0's own place. Error: the port is in use, or there is no such address.
  tl::expected<ProcessPlace, std::string> listen(const ProcessPlace& place);
  /// Does all runs. Returns when all workers have left, or, after a failure, when those that still answer
  /// have.
  tl::expected<std::vector<ExecutedRun>, ExecutionError> run();

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace penstock
