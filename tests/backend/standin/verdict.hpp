#pragma once
// The settings and the result of a run on the stand-in.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace standin {

/// A fault at the n-th call or operation. With n = 0, there is no fault.
struct Fault {
  enum class Kind : std::uint8_t {
    none,
    once,          // the n-th call of CUDA or NCCL fails and has no effect
    sticky,        // like `once`, but every later CUDA call on its device fails, too
    late,          // the n-th operation of a stream fails, and a later query returns the error
    asynchronous,  // the n-th NCCL call is accepted, and its communicator fails later
    never_ends,    // the n-th operation of a stream never ends
  };
  Kind kind = Kind::none;
  std::uint64_t n = 0;
};

struct Setting {
  std::uint64_t seed = 1;
  int devices = 1;
  int sms = 132;       ///< the SMs of each device
  int capability = 9;  ///< the compute capability
  int nccl_error = 2;  ///< the error that a failing NCCL call returns: ncclSystemError
  Fault fault{};
  bool past_the_checker = false;    ///< NCCL starts kernels in launch order, whatever its environment says
  int ranks_per_device = 1;         ///< consecutive ranks that share a device
  double opening_seconds = 0;       ///< virtual; the time in which NCCL opens a communicator
  bool peers_reach = true;          ///< devices can access each other's memory
  std::size_t launch_queue = 1024;  ///< operations that a stream takes; the next one blocks its thread
  int nccl_version = 23007;         ///< version that NCCL reports
  std::string mutant{};             ///< what is broken on purpose, by its name in mutants_test.cpp
  double most_seconds = 600;        ///< virtual; a run beyond it hangs
};

struct Verdict {
  std::string answer{};                ///< the text that the run's function returned
  std::vector<std::string> defects{};  ///< races, misuses, leaks and hangs, in order
  std::string death{};                 ///< the end of the process if it failed
  std::uint64_t trace = 0;             ///< a digest of all calls with their threads and times
  std::uint64_t launch_order = 0;      ///< a digest of the NCCL launches of each device, in order
  std::uint64_t calls = 0;             ///< the number of CUDA and NCCL calls
  std::uint64_t operations = 0;        ///< the number of ended operations of streams
  std::uint64_t switches = 0;          ///< the number of switches between host threads
  double seconds = 0;                  ///< virtual
  std::uint64_t blocked_launches = 0;  ///< launches that waited because a launch queue was full
  std::uint64_t copied_bytes = 0;      ///< the bytes that cudaMemcpyAsync() copied
  std::map<std::string, std::uint64_t>
      timed_bytes{};  ///< the bytes of each NCCL function inside execute(), summed over ranks
  bool fault_met = false;
  // The counts inside the last execute(), for threads that it started:
  std::uint64_t timed_waits = 0;        ///< polls of the device that had to be repeated, and blocked calls
  std::uint64_t timed_allocations = 0;  ///< memory, streams and events that were created or destroyed
};

/// Runs `run` in a child of this process. The seed determines the order of host threads, the devices and the
/// time. Requires that this process has only one thread.
Verdict controlled(const Setting& setting, const std::function<std::string()>& run);

/// Returns the verdict as text, for failures of tests.
std::string to_text(const Verdict& verdict);

}  // namespace standin
