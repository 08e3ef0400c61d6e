#pragma once
// NCCL's communicators: the communicators that a program needs, the order in which all ranks open them, and
// their operations.

#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cuda/stream.hpp"
#include "schedules/check/flat_program.hpp"

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
  /// Asks NCCL for the state of a call in progress, with a pause between two looks.
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

}  // namespace penstock
