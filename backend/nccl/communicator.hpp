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

/// "communicator 0 -> 1 (rank 0, with rank 1): ncclSend: ncclRemoteError (6): remote process exited ...".
class NcclError : public std::runtime_error {
 public:
  NcclError(const std::string& message, ncclResult_t code) : std::runtime_error(message), code_(code) {}
  ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

/// The bytes of a new ncclUniqueId. Throws NcclError. Needs no GPU.
std::string new_unique_id();

/// All calls from one thread.
class Communicator {
 public:
  /// Opens the communicator together with the other ranks of the plan, which all show the same id. The device
  /// that is current is its device. Throws NcclError, Stopped, and std::runtime_error past the deadline.
  Communicator(CommunicatorPlan plan, std::int32_t rank, const std::string& unique_id,
               const WaitLimits& limits);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Aborts it unless it was closed.
  ~Communicator();

  ncclComm_t handle() const { return handle_; }
  const CommunicatorPlan& plan() const { return plan_; }
  /// This rank's number in it.
  int own_number() const { return own_number_; }
  /// The number of another of its ranks.
  int number_of(std::int32_t rank) const;

  /// Waits until a call that returned `result` has been taken. Throws as the constructor does.
  void settle(ncclResult_t result, std::string_view call, const WaitLimits& limits) const;
  /// Throws NcclError when something that was taken has failed since; where its peer is gone, after some
  /// seconds, or Stopped when somebody has said why.
  void check() const;
  /// Ends what is in flight here; the peers' ends are theirs to abort. Nothing can be sent any more.
  void abort();
  /// When all has ended at all its ranks. Throws as the constructor does.
  void close(const WaitLimits& limits);

 private:
  [[noreturn]] void fail(ncclResult_t result, std::string_view call) const;
  std::string name() const;

  CommunicatorPlan plan_;
  std::int32_t rank_;
  int own_number_;
  WaitLimits limits_;  // of its opening
  ncclComm_t handle_ = nullptr;
};

/// While it lives, aborts of this thread set their communicators' flags alone; its end waits for all of them.
/// One by one, an abort may wait for a kernel that another's holds back.
class AbortTogether {
 public:
  AbortTogether();
  AbortTogether(const AbortTogether&) = delete;
  AbortTogether& operator=(const AbortTogether&) = delete;
  ~AbortTogether();
};

/// What messages and sums move at the least, so that they arrive.
inline constexpr std::size_t kLeastBytes = 4;

}  // namespace penstock
