#pragma once
// NCCL's communicators: the communicators that a program needs, the order in which all ranks open them, and
// their operations.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nccl.h>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

enum class CommunicatorKind : std::uint8_t {
  edge,   // communicator for transfers from ranks[0] to ranks[1]
  group,  // communicator for collectives and barriers of all `ranks`, in ascending order
};

struct CommunicatorPlan {
  CommunicatorKind kind = CommunicatorKind::edge;
  std::vector<std::int32_t> ranks;

  friend auto operator<=>(const CommunicatorPlan&, const CommunicatorPlan&) = default;
};

/// Returns the communicators that the program needs. There is one for each ordered pair of ranks with
/// messages, and one for each set of ranks with collectives or barriers. They are sorted by first use,
/// which is a position in the list of the sender or of the first member. Communicators with equal positions
/// are sorted by this rank. All ranks open their communicators in this order, so that they cannot wait for
/// each other in a cycle.
std::vector<CommunicatorPlan> communicators_of(const FlatProgram& flat);

/// Returns the communicator that `message` uses.
CommunicatorPlan communicator_of(const FlatProgram& flat, const FlatMessage& message);

/// Returns the communicator as text, such as "0 -> 1" or "{0, 2}".
std::string to_text(const CommunicatorPlan& plan);

// A class that owns one NCCL communicator. It opens the communicator without blocking forever, throws errors
// as exceptions, and aborts the communicator after a failure.

/// The error of an NCCL call. Its text is, for example, "communicator 0 -> 1 (rank 0, with rank 1): ncclSend:
/// ncclRemoteError (6): remote process exited ...".
class NcclError : public std::runtime_error {
 public:
  NcclError(const std::string& message, ncclResult_t code) : std::runtime_error(message), code_(code) {}
  ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

/// Returns the bytes of a new ncclUniqueId. Needs no GPU. Throws NcclError.
std::string new_unique_id();

/// The largest number of CTAs (thread blocks) of one NCCL kernel if each GPU has one rank. Each CTA
/// occupies an SM while the kernel runs, also while it waits for a peer.
inline constexpr std::int32_t kMostCtas = 4;

/// Returns the largest number of CTAs (thread blocks) of each communicator if several ranks share a GPU.
/// The ranks of a GPU then use together about as many as one rank alone would use.
constexpr std::int32_t most_ctas(std::int32_t ranks_per_gpu) {
  return ranks_per_gpu < kMostCtas ? kMostCtas / ranks_per_gpu : 1;
}

/// Returns the largest number of CTAs (thread blocks) that NCCL's kernels can occupy at once on one GPU. It
/// assumes that each rank of the GPU runs one kernel for each of its communicators. The result is the
/// maximum over all GPUs.
std::int32_t most_resident_ctas(const FlatProgram& flat, std::int32_t ranks_per_gpu);

/// One communicator of this rank. Only one thread may call its functions.
class Communicator {
 public:
  /// Begins to open the communicator on the current device. All ranks of the plan must do this, with the same
  /// `unique_id` and `max_ctas`. Inside a GroupOfCalls, communicators open at the same time, beginning at the
  /// end of the group. Throws NcclError.
  Communicator(CommunicatorPlan plan, std::int32_t rank, const std::string& unique_id,
               const WaitLimits& limits, std::int32_t max_ctas = kMostCtas);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Aborts the communicator unless close() was called.
  ~Communicator();

  /// Waits until the communicator is open. Must be called before its first use. Throws NcclError, Stopped, or
  /// std::runtime_error after the deadline of the constructor.
  void wait_until_open() const;

  ncclComm_t handle() const { return handle_; }
  const CommunicatorPlan& plan() const { return plan_; }
  /// Returns this rank's number in the communicator.
  int own_number() const { return own_number_; }
  /// Returns the number of another rank in the communicator.
  int number_of(std::int32_t rank) const;

  /// Waits until NCCL has accepted a call. `result` is the result of the call, which may be "in progress".
  /// Throws the exceptions of wait_until_open().
  void complete(ncclResult_t result, std::string_view call, const WaitLimits& limits) const;
  /// Throws NcclError if an accepted operation has failed. If the cause is a lost peer, it first waits some
  /// seconds. It throws Stopped instead if another rank reports its failure in this time.
  void check() const;
  /// Aborts all operations in progress on this rank. Each peer must call abort() as well. The communicator
  /// cannot be used afterwards.
  void abort();
  /// Closes the communicator. Requires that all operations have ended on all its ranks. Throws the exceptions
  /// of wait_until_open().
  void close(const WaitLimits& limits);

 private:
  [[noreturn]] void fail(ncclResult_t result, std::string_view call) const;
  /// Asks NCCL repeatedly for the state of a call in progress until the call has ended, with a pause between
  /// two questions.
  void wait_for_result(ncclResult_t result, std::string_view call, const WaitLimits& limits,
                       std::chrono::microseconds pause) const;
  std::string name() const;

  CommunicatorPlan plan_;
  std::int32_t rank_;
  int own_number_;
  WaitLimits limits_;  // limits that were passed to the constructor
  ncclComm_t handle_ = nullptr;
};

/// A group of NCCL's calls on this thread, from the constructor to the destructor.
///
/// Communicators whose constructors run in a group open at the same time. One after the other, they would
/// need the sum of their times, and ranks would wait for each other in chains.
///
/// An abort in a group only marks its communicator, and the destructor waits for all marked communicators. A
/// single abort could wait forever for a kernel that another communicator delays.
class GroupOfCalls {
 public:
  GroupOfCalls();
  GroupOfCalls(const GroupOfCalls&) = delete;
  GroupOfCalls& operator=(const GroupOfCalls&) = delete;
  ~GroupOfCalls();
};

/// The smallest size in bytes of a message or a sum. With this size, NCCL really transfers data.
inline constexpr std::size_t kLeastBytes = 4;

// The NCCL resources of one rank: its communicators, a stream for each communicator, buffers, and the layouts
// of the tensors that the rank exchanges.

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

  /// Returns the layout of a transfer. The function of_members() returns the layouts of a collective's
  /// members. Both throw std::logic_error if a layout is not known yet.
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
