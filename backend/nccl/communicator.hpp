#pragma once
// One NCCL communicator: opened without blocking, watched, and aborted when anything fails.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <nccl.h>

#include "backend/cuda/stream.hpp"
#include "backend/nccl/communicator_plan.hpp"

namespace penstock {

/// The error of an NCCL call, for example "communicator 0 -> 1 (rank 0, with rank 1): ncclSend:
/// ncclRemoteError (6): remote process exited ...".
class NcclError : public std::runtime_error {
 public:
  NcclError(const std::string& message, ncclResult_t code) : std::runtime_error(message), code_(code) {}
  ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

/// Returns the bytes of a new ncclUniqueId. Throws NcclError. Needs no GPU.
std::string new_unique_id();

/// One communicator of this rank. All calls must come from one thread.
class Communicator {
 public:
  /// Opens the communicator together with the other ranks of the plan, which must all pass the same id. Uses
  /// the current device. Throws NcclError, Stopped, and std::runtime_error after the deadline.
  Communicator(CommunicatorPlan plan, std::int32_t rank, const std::string& unique_id,
               const WaitLimits& limits);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Aborts the communicator unless close() was called.
  ~Communicator();

  ncclComm_t handle() const { return handle_; }
  const CommunicatorPlan& plan() const { return plan_; }
  /// Returns this rank's number in the communicator.
  int own_number() const { return own_number_; }
  /// Returns the number of another rank in the communicator.
  int number_of(std::int32_t rank) const;

  /// Waits until NCCL has accepted a call that returned `result`. Throws like the constructor.
  void complete(ncclResult_t result, std::string_view call, const WaitLimits& limits) const;
  /// Throws NcclError if an accepted operation has failed since. If a peer is gone, it first waits some
  /// seconds, and throws Stopped if another rank reports the cause.
  void check() const;
  /// Ends the operations in flight on this rank. The peers must abort their own ends. No operation can
  /// follow.
  void abort();
  /// Closes the communicator when all operations have ended on all its ranks. Throws like the constructor.
  void close(const WaitLimits& limits);

 private:
  [[noreturn]] void fail(ncclResult_t result, std::string_view call) const;
  std::string name() const;

  CommunicatorPlan plan_;
  std::int32_t rank_;
  int own_number_;
  WaitLimits limits_;  // limits of its opening
  ncclComm_t handle_ = nullptr;
};

/// Groups aborts. While it exists, an abort on this thread only sets its communicator's flag, and the
/// destructor waits for all of them. Separate aborts could each wait for a kernel that another communicator
/// holds back.
class AbortTogether {
 public:
  AbortTogether();
  AbortTogether(const AbortTogether&) = delete;
  AbortTogether& operator=(const AbortTogether&) = delete;
  ~AbortTogether();
};

/// Least size of a message or a sum, so that it moves any bytes at all.
inline constexpr std::size_t kLeastBytes = 4;

}  // namespace penstock
