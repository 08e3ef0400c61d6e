#pragma once
// The NCCL resources of one rank: its communicators, a stream for each communicator, buffers, and the layouts
// of the tensors that the rank exchanges.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/communicator.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// The layout of a payload. It is absent if the payload is null.
using AgreedLayout = std::optional<DeviceLayout>;

/// The tensor layouts of the payloads that this rank knows, one for each flow. A flow is all messages
/// between two stages on two ranks. It can also be all contributions of one rank to a stage's reductions or
/// gathers. All payloads of a flow have the same layout, which the flow's sender publishes in the store of
/// the run.
class Layouts {
 public:
  /// Stores references to all arguments, which must outlive this object. `codec` is null if all payloads are
  /// null.
  Layouts(const FlatProgram& flat, std::int32_t rank, Rendezvous& store, const DeviceCodec* codec)
      : flat_(flat), rank_(rank), store_(store), codec_(codec) {}

  /// Publishes the layout of `content`, which this rank sends or contributes, for the flow of the message.
  /// Throws std::runtime_error if the flow already has a different layout.
  void tell(std::int32_t message, const PayloadContent* content, const WaitLimits& limits);
  /// Waits until the sender of the transfer `message` has published the layout of its payload, and returns
  /// this layout. Throws the exceptions of Rendezvous::get().
  const AgreedLayout& hear(std::int32_t message, const WaitLimits& limits);
  /// Waits until all members of a collective have published their layouts. Returns the layouts in ascending
  /// order of ranks. Throws the exceptions of hear().
  std::vector<AgreedLayout> hear_members(std::int32_t message, const WaitLimits& limits);

  /// Returns the layout of a transfer, which must be known already. The next function, of_members(), does
  /// the same for a collective. Both throw std::logic_error if a layout is not known.
  const AgreedLayout& of(std::int32_t message) const;
  std::vector<AgreedLayout> of_members(std::int32_t message) const;
  /// Returns the layout of the sum of a REDUCE_GRAD. It is the layout of any member that contributes a
  /// gradient; a member that ran no microbatch contributes none.
  AgreedLayout of_sum(std::int32_t message) const;

 private:
  std::string flow_of(std::int32_t message, std::int32_t rank) const;
  std::vector<std::int32_t> members_of(std::int32_t message) const;
  const AgreedLayout& heard(const std::string& flow, std::int32_t from, const WaitLimits& limits);
  const AgreedLayout& known(const std::string& flow) const;

  const FlatProgram& flat_;
  std::int32_t rank_;
  Rendezvous& store_;
  const DeviceCodec* codec_;
  std::map<std::string, AgreedLayout> by_flow_;
};

/// The settings of an NcclSession. All references must outlive the session.
struct NcclSessionParts {
  const FlatProgram& flat;
  /// The cost table. If payloads are null, its bytes of gradients and weights are the sizes of collectives.
  const CostTable& costs;
  /// True if stages are sharded. In this case, each member has only its part of the sum after REDUCE_GRAD.
  bool scatters = false;
  std::int32_t rank = 0;
  std::int32_t device = 0;
  const DeviceCodec* codec = nullptr;  ///< codec of the payloads; null if all payloads are null
  RendezvousPlace store;
  std::function<bool()> stopped;      ///< returns true if another rank has failed
  std::int32_t max_ctas = kMostCtas;  ///< largest number of CTAs of each communicator
  bool checks_gpus = false;           ///< true if a launcher has chosen the GPUs of the processes
  std::int32_t ranks_per_gpu = 1;
  /// The time limit of each step of the start, such as opening a communicator or sending the first message.
  std::chrono::nanoseconds deadline = std::chrono::seconds(30);
};

/// The NCCL communicators, streams and buffers of one rank. Only the rank's thread may call its functions.
/// The current device of that thread must be the session's device.
class NcclSession {
 public:
  /// A buffer that a communicator reads or writes, and an event after the compute stream's last use of this
  /// buffer.
  struct Slot {
    DeviceBuffer memory;
    CudaEvent consumed;
  };
  struct Line {
    CudaStream stream;
    /// Buffers of receives and collectives: one for each that may be in progress at the same time. The buffer
    /// of a collective has room for the parts of all members.
    std::vector<Slot> slots;
    DeviceBuffer outgoing;                       ///< buffer of all sends, which run one after another
    std::unique_ptr<Communicator> communicator;  // declared last, so that it is destroyed first
  };

  /// Opens all communicators of the rank at the same time. Throws the exceptions of
  /// Communicator::wait_until_open(), or std::runtime_error if a GPU has too many ranks.
  explicit NcclSession(const NcclSessionParts& parts);
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;
  /// Closes all communicators of the rank.
  ~NcclSession();

  /// Returns the layouts of the rank's messages. None is known until rehearse() has run
  /// (nccl_transport.hpp).
  Layouts& layouts() { return layouts_; }
  /// Allocates all buffers, and sends messages of all sizes over each communicator. When a message size is
  /// first used, NCCL may make connections and allocate memory. This must not happen in a timed run.
  /// Requires that all layouts are known. Throws the exceptions of the constructor.
  void make_ready();

  bool has(const CommunicatorPlan& plan) const { return lines_.contains(plan); }
  Line& line(const CommunicatorPlan& plan) { return lines_.at(plan); }
  /// Returns the bytes of the message. For an UNSHARD, returns the bytes of one member's part. If payloads
  /// are null, the sizes come from the program and the costs. The size of a reduce-scatter is rounded up to
  /// equal parts.
  std::size_t bytes_of(std::int32_t message) const;
  /// Returns true if the message is a REDUCE_GRAD of a sharded stage that can run as a reduce-scatter. This
  /// requires that all its numbers have one type and that there are no gaps. Otherwise equal parts of the
  /// buffer would not be the parts of the weights.
  bool scatters(std::int32_t message) const;
  /// Throws if one of the rank's communicators has failed (see Communicator::check()).
  void check() const;
  /// Aborts the operations of this rank on all communicators at the same time, because one communicator may
  /// wait for another. Must be called before the memory of the operations is freed, because freeing memory
  /// waits for the device. The session cannot be used afterwards.
  void abort();
  WaitLimits limits() const { return {.stopped = parts_.stopped, .deadline = parts_.deadline}; }

 private:
  void open_all();
  void check_gpus();
  using Sizes = std::map<CommunicatorPlan, std::set<std::size_t>>;
  Sizes message_sizes() const;
  void make_buffers(const Sizes& sizes);
  /// Sends a message of each size over the communicator, and waits until all have ended. NCCL then makes
  /// its connections before the timed run.
  void greet(Line& line, const std::set<std::size_t>& sizes);
  void greet_once(Line& line, std::size_t bytes);

  struct Aborting;

  NcclSessionParts parts_;
  Rendezvous store_;
  Layouts layouts_;
  std::map<CommunicatorPlan, Line> lines_;
  std::shared_ptr<Aborting> aborting_;  // state of an abort; null before abort()
};

/// The settings that NCCL reads from the environment.
struct NcclEnvironment {
  std::string address;  ///< address of the store; on the loopback address, NCCL uses only that interface
  bool launch_order = false;  ///< true if each kernel starts only after all kernels launched before it
  bool shares_gpus = false;   ///< true if several ranks share a GPU
};

/// Sets environment variables that NCCL reads. Must be called before NCCL starts.
void prepare_nccl_environment(const NcclEnvironment& wanted);

}  // namespace penstock
