#pragma once
// Processes that a launcher started together, each with the same command. Used by commands/sweep_command.cpp;
// made by main_mpi.cpp and socket_group.cpp.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/outcome.hpp"

namespace penstock {

/// One of them. Every member calls each function equally often and in the same order.
struct ProcessGroup {
  int rank = 0;  ///< of 0 to size - 1
  int size = 1;
  /// What the process of rank 0 says; what the others give is not read.
  std::function<std::string(const std::string&)> first_says{};
  /// What all say, by rank, in the process of rank 0; empty in the others.
  std::function<std::vector<std::string>(const std::string&)> gather{};
  /// Ends all of them: the others may wait for this one. Does not return.
  std::function<void(ExitCode)> abandon{};
};

enum class StartedBy : std::uint8_t {
  user,          // alone, whoever it was
  mpi_launcher,  // mpirun or srun, with others
  torchrun,      // with others
};

/// What the environment says of who started this process.
StartedBy started_by();

}  // namespace penstock
