#pragma once
// Connects the workers of a process run, starts each run at one moment, watches the workers, and combines
// their times. Used only by process_execution.cpp.

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
  /// Keeps a reference to `execution`, which must outlive this object.
  Coordinator(const ProcessExecution& execution, RankProcesses processes);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();

  /// Uses these sockets, one a rank, whose other ends are the workers'.
  void adopt(std::vector<Descriptor> workers);
  /// Accepts workers at that address that know the secret. The secret is the place's, or a new one in a file
  /// that exists until all workers have joined. Returns rank 0's own place. Error: the port is in use, or
  /// there is no such address.
  tl::expected<ProcessPlace, std::string> listen(const ProcessPlace& place);
  /// Performs all runs. Returns when all workers have left; after a failure, when those that still answer
  /// have left.
  tl::expected<std::vector<ExecutedRun>, ExecutionError> run();

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace penstock
