#pragma once
// Brings the workers of a process run together, starts each run at one moment, watches over them, and puts
// their times together. Private to process_execution.cpp.

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/rank_sockets.hpp"

namespace penstock {

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
