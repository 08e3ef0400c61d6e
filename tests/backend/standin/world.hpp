#pragma once
// The state of one controlled run. Only the stand-in uses this file. Tests use verdict.hpp.

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
  /// These functions end the process and send the result.
  [[noreturn]] void hang(const char* why);
  [[noreturn]] void finish(std::string answer);
  /// Counts a call. Returns true if this call must fail.
  bool note_call(const char* name);
  bool is_fault(Fault::Kind kind, std::uint64_t number);
  bool has_mutant(std::string_view name) const { return setting.mutant == name; }
  /// Records that memory, a stream or an event was created or destroyed, or that a connection was opened.
  void note_allocation();
  std::vector<int> all_sms() const;

  Setting setting;
  Scheduler scheduler;
  Memory memory;
  Devices devices;
  NcclModel nccl;
  bool is_timed = false;  ///< true while execute() runs
  std::uint64_t copied_bytes = 0;
  std::map<std::string, std::uint64_t> timed_bytes;  ///< by NCCL function
  bool is_started = false;                           ///< true after the first CUDA call
  bool is_forked = false;                            ///< true if a parent process had called CUDA
  std::uint64_t timed_waits = 0;
  std::uint64_t blocked_launches = 0;
  std::uint64_t timed_allocations = 0;

 private:
  std::vector<std::string> defects_;
  std::uint64_t trace_ = 0xcbf29ce484222325;
  std::uint64_t calls_ = 0;
  bool fault_met_ = false;
};

/// Must be called by the only thread of a process that was just forked inside a controlled run.
void begin_child();

/// Returns the world of the controlled run. Ends the program if there is none.
World& world();

}  // namespace standin
