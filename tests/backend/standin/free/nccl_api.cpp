// The functions of NCCL that the backend calls, between processes. If the backend calls another function,
// linking fails. The operations of a group are given at its end, in the order of the calls. All aborts of a
// group begin before one of them waits.

#include <nccl.h>

#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/backend/standin/free/calls.hpp"
#include "tests/backend/standin/free/communicator.hpp"

namespace {

using standin::begin_call;
using standin::Communicator;
using standin::Deed;
using standin::Meeting;
using standin::Part;

using Handle = std::shared_ptr<Communicator>;

thread_local int group_depth = 0;
thread_local std::vector<Handle> aborted_in_group;
/// The operations of a group until its end.
thread_local std::vector<std::function<ncclResult_t()>> given_in_group;

Communicator& of(ncclComm_t handle) { return **reinterpret_cast<Handle*>(handle); }

/// Returns the content of the handle, and deletes the handle.
Handle taken(ncclComm_t handle) {
  const std::unique_ptr<Handle> owned(reinterpret_cast<Handle*>(handle));
  return *owned;
}

void abort_all(const std::vector<Handle>& communicators) {
  for (const Handle& one : communicators) one->start_abort();
  for (const Handle& one : communicators) one->wait_until_aborted();
}

ncclResult_t give(const char* name, const Part& part, ncclComm_t handle, cudaStream_t stream) {
  if (begin_call(name)) return ncclSystemError;
  const auto give_now = [part, handle, stream] {
    return of(handle).give(part, **reinterpret_cast<std::shared_ptr<standin::Stream>*>(stream));
  };
  if (group_depth == 0) return give_now();
  given_in_group.emplace_back(give_now);
  return ncclSuccess;
}

/// Enqueues a transfer between the two ranks of a communicator.
ncclResult_t give_transfer(const char* name, const Part& part, int peer, ncclComm_t handle,
                           cudaStream_t stream) {
  if (of(handle).size() != 2 || peer != 1 - of(handle).rank()) return ncclInvalidArgument;
  return give(name, part, handle, stream);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 23007;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (begin_call("ncclGetUniqueId")) return ncclSystemError;
  static_assert(sizeof(Meeting) <= sizeof(id->internal));
  const Meeting meeting = standin::new_meeting();
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &meeting, sizeof(meeting));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (begin_call("ncclCommInitRankConfig")) return ncclSystemError;
  if (config == nullptr || config->blocking != 0) return ncclInvalidUsage;
  Meeting meeting;
  std::memcpy(&meeting, id.internal, sizeof(meeting));
  Handle made = Communicator::join(meeting, size, rank);
  if (made == nullptr) return ncclInvalidArgument;
  *handle = reinterpret_cast<ncclComm_t>(new Handle(std::move(made)));
  return ncclInProgress;
}

/// The backend polls with this function, so a mishap does not count it.
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  *state = of(handle).state();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  if (begin_call("ncclCommFinalize")) return ncclSystemError;
  of(handle).finalize();
  return of(handle).state();
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const bool fails = begin_call("ncclCommDestroy");
  const Handle last = taken(handle);
  return fails ? ncclSystemError : ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const bool fails = begin_call("ncclCommAbort");
  aborted_in_group.push_back(taken(handle));
  if (group_depth == 0) abort_all(std::exchange(aborted_in_group, {}));
  return fails ? ncclSystemError : ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group_depth > 0) return ncclSuccess;
  abort_all(std::exchange(aborted_in_group, {}));
  ncclResult_t first = ncclSuccess;
  for (const auto& give_now : std::exchange(given_in_group, {})) {
    if (const ncclResult_t result = give_now(); first == ncclSuccess) first = result;
  }
  return first;
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  return give_transfer("ncclSend", {.deed = Deed::send, .from = from, .count = count, .type = type}, peer,
                       handle, stream);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  return give_transfer("ncclRecv", {.deed = Deed::receive, .to = to, .count = count, .type = type}, peer,
                       handle, stream);
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t handle, cudaStream_t stream) {
  return give("ncclAllReduce", {.deed = Deed::sum, .from = from, .to = to, .count = count, .type = type},
              handle, stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t handle, cudaStream_t stream) {
  return give("ncclReduceScatter",
              {.deed = Deed::scatter, .from = from, .to = to, .count = count, .type = type}, handle, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t handle, cudaStream_t stream) {
  return give("ncclAllGather", {.deed = Deed::gather, .from = from, .to = to, .count = count, .type = type},
              handle, stream);
}

}  // extern "C"
