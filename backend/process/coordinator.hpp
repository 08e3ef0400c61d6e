#pragma once
// Connects the workers of a run, starts all of them at one moment, watches them, and combines their times.
// worker.hpp has the other side of the protocol. Only process_execution.cpp uses it.

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/child_processes.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/process_execution.hpp"

namespace penstock {

class Coordinator {
 public:
  /// Prepares the runs. `execution` must outlive this object, which stores a reference to it.
  Coordinator(const ProcessExecution& execution, RankProcesses processes);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();

  /// Takes the coordinator's ends of the socket pairs, one for each rank. The workers have the other ends.
  void adopt(std::vector<Descriptor> workers);
  /// Listens at the coordinator's address in `place` for workers that know the secret. If `place` has no
  /// secret, makes one and writes it to a file. The file exists until all workers have joined. Returns the
  /// address and the secret for rank 0's own worker. Fails if the port is in use or the address does not
  /// exist.
  tl::expected<ProcessPlace, std::string> listen(const ProcessPlace& place);
  /// Performs all runs and returns them when all workers have disconnected. After a failure, does not wait
  /// for workers that no longer answer.
  tl::expected<std::vector<ExecutedRun>, ExecutionError> run();

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace penstock
