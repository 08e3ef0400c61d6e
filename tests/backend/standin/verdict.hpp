#pragma once
// What a run on the stand-in ends with, and what a test may ask of it.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace standin {

/// The n-th call or operation goes wrong; n = 0: none.
struct Fault {
  enum class Kind : std::uint8_t {
    none,
    once,          // the n-th call of CUDA or NCCL fails and has no effect
    sticky,        // and every later call of CUDA on its device fails, too
    late,          // the n-th operation of a stream fails, and a later query says so
    asynchronous,  // the n-th call of NCCL is taken, and its communicator fails afterwards
    never_ends,    // the n-th operation of a stream
  };
  Kind kind = Kind::none;
  std::uint64_t n = 0;
};

struct Setting {
  std::uint64_t seed = 1;
  int devices = 1;
  int sms = 132;       ///< of each
  int capability = 9;  ///< of compute
  int nccl_error = 2;  ///< what the call of NCCL that fails returns: ncclSystemError
  Fault fault{};
  bool past_the_checker = false;  ///< NCCL starts kernels in launch order, whatever its environment says
  int ranks_per_device = 1;       ///< consecutive ranks that share a device
  int nccl_version = 23007;       ///< version that NCCL reports
  std::string mutant{};           ///< what is broken on purpose, by its name in mutants_test.cpp
  double most_seconds = 600;      ///< virtual; a run beyond it hangs
};

struct Verdict {
  std::string answer{};  ///< what the run's function returned
  std::vector<std::string>
      defects{};                   ///< races, misuses, leaks, hangs: in the order in which they were found
  std::string death{};             ///< how the process ended when it did not end well
  std::uint64_t trace = 0;         ///< digest of all calls, with thread and moment
  std::uint64_t launch_order = 0;  ///< digest of what each device was given of NCCL, in order
  std::uint64_t calls = 0;         ///< of CUDA and NCCL
  std::uint64_t operations = 0;    ///< that streams ended
  std::uint64_t switches = 0;      ///< of host threads
  double seconds = 0;              ///< virtual
  std::uint64_t copied_bytes = 0;  ///< by cudaMemcpyAsync()
  std::map<std::string, std::uint64_t>
      timed_bytes{};  ///< of NCCL's functions, each rank's count, inside execute()
  bool fault_met = false;
  // Inside the last execute(), by threads that it started:
  std::uint64_t timed_waits = 0;        ///< the host looked at the device and had to look again
  std::uint64_t timed_allocations = 0;  ///< memory, streams and events, made or destroyed
};

/// Runs `run` in a child of this process, whose only thread must be the caller's: host threads, devices and
/// time under one seed.
Verdict controlled(const Setting& setting, const std::function<std::string()>& run);

/// For failures of tests: all that is worth reading.
std::string to_text(const Verdict& verdict);

}  // namespace standin
