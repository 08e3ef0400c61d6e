#pragma once
// All of one controlled run. Private to the stand-in; tests see verdict.hpp.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/backend/standin/devices.hpp"
#include "tests/backend/standin/memory.hpp"
#include "tests/backend/standin/nccl_model.hpp"
#include "tests/backend/standin/scheduler.hpp"
#include "tests/backend/standin/verdict.hpp"

namespace standin {

inline constexpr int kLateError = 700;  // cudaErrorIllegalAddress

struct World {
  explicit World(const Setting& asked);

  void defect(std::string what);
  /// Ends the process with what is known.
  [[noreturn]] void hang(const char* why);
  [[noreturn]] void finish(std::string answer);
  /// Counts a call; true: it is the one that fails.
  bool note_call(const char* name);
  bool is_fault(Fault::Kind kind, std::uint64_t number);
  bool has_mutant(std::string_view name) const { return setting.mutant == name; }
  /// Memory, a stream or an event was made or destroyed, or a connection opened.
  void note_allocation();
  std::vector<int> all_sms() const;

  Setting setting;
  Scheduler scheduler;
  Memory memory;
  Devices devices;
  NcclModel nccl;
  bool is_timed = false;  ///< execute() runs
  std::uint64_t copied_bytes = 0;
  std::map<std::string, std::uint64_t> timed_bytes;  ///< by function of NCCL
  bool is_started = false;                           ///< CUDA has been called
  bool is_forked = false;                            ///< this is a child of a process that had called it
  std::uint64_t timed_waits = 0;
  std::uint64_t timed_allocations = 0;

 private:
  std::vector<std::string> defects_;
  std::uint64_t trace_ = 0xcbf29ce484222325;
  std::uint64_t calls_ = 0;
  bool fault_met_ = false;
};

/// The calling thread is the only one of a process that has just been forked inside a controlled run.
void begin_child();

/// Ends the program where no run is controlled.
World& world();

}  // namespace standin
