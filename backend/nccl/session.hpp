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
#include "backend/nccl/rendezvous.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// All references must outlive the session.
struct NcclSessionParts {
  const FlatProgram& flat;
  const CostTable& costs;  ///< whose bytes of gradients and weights collectives move at the most
  std::int32_t rank = 0;
  std::int32_t device = 0;
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

  /// Opens all communicators of the rank and sends messages of all its sizes over each, in the program's
  /// order: connections are made, and memory may have to be, when a size is first used. Throws what
  /// Communicator throws.
  explicit NcclSession(const NcclSessionParts& parts);
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;
  /// Closes the communicators.
  ~NcclSession();

  Line& line(const CommunicatorPlan& plan) { return lines_.at(plan); }
  Rendezvous& store() { return store_; }
  /// Of at least that many bytes. What is too small is kept until the end: freeing waits for the device, and
  /// a kernel on it may wait for a peer.
  void* grown(DeviceBuffer& buffer, std::size_t bytes);
  /// Throws what has failed on any communicator.
  void check() const;
  /// Ends what is in flight here, on all communicators at once: one may wait for another. No memory that it
  /// uses may be freed before: freeing waits for the device. Nothing can be sent any more.
  void abort();
  WaitLimits limits() const { return {.stopped = parts_.stopped, .deadline = parts_.deadline}; }

  /// Layouts by the name of a flow: agreed on once, and good for all runs. Nothing inside: null payloads.
  std::map<std::string, std::optional<DeviceLayout>> layouts;

 private:
  void open_all();
  void open(const CommunicatorPlan& plan, std::size_t number);
  void make_buffers();
  void greet(Line& line, const std::set<std::size_t>& sizes);
  void greet_once(Line& line, std::size_t bytes);

  NcclSessionParts parts_;
  Rendezvous store_;
  std::vector<DeviceBuffer> outgrown_;
  std::map<CommunicatorPlan, Line> lines_;
};

/// Has NCCL start operations of several communicators in the order of the calls, and, where the ranks meet on
/// this host's loopback address, open no other one. To be called before NCCL starts.
void prepare_nccl_environment(const std::string& address);

/// What prepare_nccl_environment() leaves or has left in place: a kernel starts when those launched before it
/// have.
bool starts_in_launch_order();

}  // namespace penstock
