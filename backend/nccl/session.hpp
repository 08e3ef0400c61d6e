#pragma once
// The NCCL resources of one rank from its start to its end: communicators, a stream for each, buffers.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/nccl/communicator.hpp"
#include "backend/nccl/communicator_plan.hpp"
#include "backend/nccl/layouts.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// The arguments of a session. All references must outlive it.
struct NcclSessionParts {
  const FlatProgram& flat;
  const CostTable& costs;  ///< its bytes of gradients and weights limit the sizes of collectives
  /// True if stages are sharded. REDUCE_GRAD then leaves each member only its part of the sum.
  bool scatters = false;
  std::int32_t rank = 0;
  std::int32_t device = 0;
  const DeviceCodec* codec = nullptr;  ///< null if all payloads are null
  RendezvousPlace store;
  std::function<bool()> stopped;  ///< returns whether the run has failed elsewhere
  /// Limit for each step of the start, such as opening a communicator or a first message.
  std::chrono::nanoseconds deadline = std::chrono::seconds(30);
};

/// The NCCL resources of one rank. All calls must come from the rank's one thread, whose current device is
/// the session's.
class NcclSession {
 public:
  /// Memory that a communicator reads or writes, with an event after the compute stream's last use of it.
  struct Slot {
    DeviceBuffer memory;
    CudaEvent consumed;
  };
  struct Line {
    CudaStream stream;
    std::size_t turns = 0;    ///< number of messages and collectives that may be in flight at once
    std::vector<Slot> slots;  ///< one for each turn of receives; one for each member and turn of collectives
    DeviceBuffer outgoing;    ///< buffer of sends, which run one after another
    std::unique_ptr<Communicator> communicator;  // destroyed first
  };

  /// Opens all communicators of the rank, in the program's order. Throws what Communicator throws.
  explicit NcclSession(const NcclSessionParts& parts);
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;
  /// Closes the communicators.
  ~NcclSession();

  /// Returns the layouts. They are empty until the rank has rehearsed (rehearsal.hpp).
  Layouts& layouts() { return layouts_; }
  /// Makes all buffers, and sends messages of all sizes over each communicator. This makes the connections
  /// and the memory that NCCL may need when a size is first used. Requires all layouts. Throws like the
  /// constructor.
  void make_ready();

  bool has(const CommunicatorPlan& plan) const { return lines_.contains(plan); }
  Line& line(const CommunicatorPlan& plan) { return lines_.at(plan); }
  /// Returns the bytes of the message; of an UNSHARD those of each member's part. If payloads are null, the
  /// program and the costs decide. A scattered sum has space for equal parts.
  std::size_t bytes_of(std::int32_t message) const;
  /// Returns whether the message is a REDUCE_GRAD whose numbers have one type and no gaps, so that its equal
  /// parts are those of the weights.
  bool scatters(std::int32_t message) const;
  /// Throws the failure of any communicator.
  void check() const;
  /// Ends the operations in flight here, on all communicators at once, because one may wait for another.
  /// Memory that they use must not be freed before, because freeing waits for the device. No operation can
  /// follow.
  void abort();
  WaitLimits limits() const { return {.stopped = parts_.stopped, .deadline = parts_.deadline}; }

 private:
  void open_all();
  /// Opens a communicator. `number` is its index in the plan; its members use it to find the unique id in the
  /// store.
  void open(const CommunicatorPlan& plan, std::size_t number);
  using Sizes = std::map<CommunicatorPlan, std::set<std::size_t>>;
  Sizes message_sizes() const;
  void make_buffers(const Sizes& sizes);
  /// Uses the communicator with each size, like the first run, and waits until that has ended.
  void greet(Line& line, const std::set<std::size_t>& sizes);
  void greet_once(Line& line, std::size_t bytes);

  struct Aborting;

  NcclSessionParts parts_;
  Rendezvous store_;
  Layouts layouts_;
  std::map<CommunicatorPlan, Line> lines_;
  std::shared_ptr<Aborting> aborting_;  // the lines that are being aborted
};

/// Sets NCCL's environment. NCCL then starts operations of several communicators in the order of the calls.
/// If the ranks meet on the loopback address, NCCL uses no other interface. Must be called before NCCL
/// starts.
void prepare_nccl_environment(const std::string& address);

/// Returns whether NCCL's environment now makes a kernel start only after those that were launched before it.
bool starts_in_launch_order();

}  // namespace penstock
