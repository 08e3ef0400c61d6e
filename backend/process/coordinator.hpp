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
#include "backend/process/socket_loop.hpp"

namespace penstock {

/// What is known about how a rank's process ended; nothing while it runs, or where nobody knows.
using HowEnded = std::function<std::optional<std::string>(std::int32_t rank)>;

class Coordinator {
 public:
  /// `execution` must outlive it.
  Coordinator(const ProcessExecution& execution, HowEnded how_ended);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();

  /// Takes workers at that address from now on. Error: the port is in use, or there is no such address.
  tl::expected<Endpoint, std::string> listen(const Endpoint& where);
  /// Does all runs. Returns when all workers have left, or, after a failure, when those that still answer
  /// have.
  tl::expected<std::vector<ExecutedRun>, ExecutionError> run();

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace penstock
