#pragma once
// Processes that a launcher started together, each with the same command. Used by commands/sweep_command.cpp;
// made by main_mpi.cpp and socket_group.cpp.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/outcome.hpp"

namespace penstock {

/// How many bytes one process says at most at a time; longer texts go in portions.
inline constexpr std::size_t kMostSaid = 32'768;

/// What one process notices of another while all of them work.
struct Heard {
  enum class What : std::uint8_t {
    said,    // `text`
    ended,   // it has ended, or cannot be reached
    silent,  // nothing has come for kLongestSilence: it is suspended, or its host is
  };

  int rank = 0;
  What what = What::said;
  std::string text{};
};

/// How long a process of a group may be silent before the others take it for lost. Each says something every
/// second, whatever it does, so that only one that is suspended, or whose host is, stays silent for so long.
inline constexpr std::chrono::seconds kLongestSilence{20};

/// One of them. Every member calls first_says() and gather() equally often and in the same order; all texts
/// have at most kMostSaid bytes.
struct ProcessGroup {
  int rank = 0;  ///< of 0 to size - 1
  int size = 1;
  /// What the process of rank 0 says; what the others give is not read.
  std::function<std::string(const std::string&)> first_says{};
  /// What all say, by rank, in the process of rank 0; empty in the others.
  std::function<std::vector<std::string>(const std::string&)> gather{};
  /// Says something to the process of that rank and does not wait until it is heard. Each process may speak
  /// with that of rank 0, and that one with all.
  std::function<void(int rank, const std::string& text)> tell{};
  /// The next that comes from another process within that time. Over MPI that is only what others tell: of a
  /// process that ends, mpirun and srun hear, and end all others by SIGTERM; one that is suspended is waited
  /// for.
  std::function<std::optional<Heard>(std::chrono::milliseconds)> hear{};
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
