#pragma once
// What one rank has of NCCL from its start to its end: communicators, a stream for each, buffers.

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

/// All references must outlive the session.
struct NcclSessionParts {
  const FlatProgram& flat;
  const CostTable& costs;  ///< whose bytes of gradients and weights collectives move at the most
  bool scatters = false;   ///< REDUCE_GRAD leaves each member its part of the sum: sharded stages
  std::int32_t rank = 0;
  std::int32_t device = 0;
  const DeviceCodec* codec = nullptr;  ///< null where all payloads are null
  RendezvousPlace store;
  std::function<bool()> stopped;  ///< the run has failed elsewhere
  /// For each step of the start: a communicator that opens, a first message.
  std::chrono::nanoseconds deadline = std::chrono::seconds(30);
};

/// All calls from the rank's one thread, which has the session's device.
class NcclSession {
 public:
  /// Memory that a communicator reads or writes, and the compute stream's last use of it.
  struct Slot {
    DeviceBuffer memory;
    CudaEvent consumed;
  };
  struct Line {
    CudaStream stream;
    std::size_t turns = 0;    ///< messages and collectives that may be under way at once
    std::vector<Slot> slots;  ///< of receives one a turn, of collectives one a member and turn
    DeviceBuffer outgoing;    ///< of sends, which end one before the other
    std::unique_ptr<Communicator> communicator;  // ends first
  };

  /// Opens all communicators of the rank, in the program's order. Throws what Communicator throws.
  explicit NcclSession(const NcclSessionParts& parts);
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;
  /// Closes the communicators.
  ~NcclSession();

  /// Empty until the rank has rehearsed (rehearsal.hpp).
  Layouts& layouts() { return layouts_; }
  /// With all layouts: makes all buffers, and sends messages of all sizes over each communicator: connections
  /// are made, and memory may have to be, when a size is first used. Throws as above.
  void make_ready();

  bool has(const CommunicatorPlan& plan) const { return lines_.contains(plan); }
  Line& line(const CommunicatorPlan& plan) { return lines_.at(plan); }
  /// What the message moves, of UNSHARD each member's part; where payloads are null, as the program and the
  /// costs say. A sum that is scattered has room for equal parts.
  std::size_t bytes_of(std::int32_t message) const;
  /// A REDUCE_GRAD whose numbers are of one type and lie end to end, so that equal parts of it are those of
  /// the weights.
  bool scatters(std::int32_t message) const;
  /// Throws what has failed on any communicator.
  void check() const;
  /// Ends what is in flight here, on all communicators at once: one may wait for another. No memory that it
  /// uses may be freed before: freeing waits for the device. Nothing can be sent any more.
  void abort();
  WaitLimits limits() const { return {.stopped = parts_.stopped, .deadline = parts_.deadline}; }

 private:
  void open_all();
  /// `number`: of the plan, by which its members find its unique id in the store.
  void open(const CommunicatorPlan& plan, std::size_t number);
  using Sizes = std::map<CommunicatorPlan, std::set<std::size_t>>;
  Sizes message_sizes() const;
  void make_buffers(const Sizes& sizes);
  /// Uses the communicator with each size, as the first run would, and waits until that has ended.
  void greet(Line& line, const std::set<std::size_t>& sizes);
  void greet_once(Line& line, std::size_t bytes);

  struct Aborting;

  NcclSessionParts parts_;
  Rendezvous store_;
  Layouts layouts_;
  std::map<CommunicatorPlan, Line> lines_;
  std::shared_ptr<Aborting> aborting_;  // what is left of the lines
};

/// Has NCCL start operations of several communicators in the order of the calls, and, where the ranks meet on
/// this host's loopback address, open no other one. To be called before NCCL starts.
void prepare_nccl_environment(const std::string& address);

/// What prepare_nccl_environment() leaves or has left in place: a kernel starts when those launched before it
/// have.
bool starts_in_launch_order();

}  // namespace penstock
