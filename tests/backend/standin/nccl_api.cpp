// The functions of NCCL that the backend calls. If the backend calls another function, linking fails. The
// operations of a group are launched at its end, in the order of the calls. The aborts of a group set all
// flags before one of them waits.

#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/backend/standin/device_facts.hpp"
#include "tests/backend/standin/world.hpp"

namespace {

using standin::Communicator;
using standin::Meeting;
using standin::Part;
using standin::world;

constexpr int kTransfer = 0;
constexpr standin::Ns kCallNs = 400;

/// The operations of a group until its end.
struct Group {
  int depth = 0;
  struct Given {
    standin::Stream* stream;
    std::shared_ptr<Part> part;
    Meeting* meeting;
  };
  std::vector<Given> given;
  std::vector<Communicator*> aborted;
  std::vector<Communicator*> opened;
};
thread_local Group group;

Communicator& of(ncclComm_t handle) { return *reinterpret_cast<Communicator*>(handle); }

/// Begins a call, at which another thread may run. Returns the error if this call must fail.
ncclResult_t enter(const char* name) {
  const bool fails = world().note_call(name);
  world().scheduler.answered();
  world().scheduler.news();
  world().scheduler.spend(kCallNs + static_cast<standin::Ns>(world().scheduler.random(400)));
  return fails ? static_cast<ncclResult_t>(world().setting.nccl_error) : ncclSuccess;
}

/// Lets the communicator fail after the call was accepted, if the test requests this.
void maybe_fail_afterwards(Communicator& communicator) {
  if (world().is_fault(standin::Fault::Kind::asynchronous, ++world().nccl.operations))
    communicator.failure = ncclRemoteError;
}

/// Returns the error if the communicator cannot be used now.
ncclResult_t check_use(Communicator& communicator, const char* name) {
  if (communicator.gone || communicator.aborted) {
    world().defect(fmt::format("{} on a communicator that was aborted or destroyed", name));
    return ncclInvalidUsage;
  }
  if (world().nccl.state(communicator) == ncclInProgress && group.depth == 0) {
    world().defect(fmt::format("{} on a communicator in progress", name));
  }
  return communicator.failure;
}

void launch_group() {
  while (!group.given.empty()) {
    standin::Stream* stream = group.given.front().stream;
    Communicator* communicator = group.given.front().part->communicator;
    std::vector<std::pair<std::shared_ptr<Part>, Meeting*>> together;
    std::erase_if(group.given, [&](const Group::Given& given) {
      if (given.stream != stream || given.part->communicator != communicator) return false;
      together.emplace_back(given.part, given.meeting);
      return true;
    });
    world().nccl.launch(*stream, together);
  }
}

/// Begins to open the communicators of a group. Returns true if one of them is in progress.
bool open_group() {
  bool is_in_progress = false;
  for (Communicator* opened : group.opened) standin::NcclModel::begin_to_open(*opened);
  for (Communicator* opened : std::exchange(group.opened, {}))
    is_in_progress |= world().nccl.state(*opened) == ncclInProgress;
  return is_in_progress;
}

/// Checks that NCCL_CONFIG_INITIALIZER has filled the configuration. NCCL refuses any other.
void check_config(const ncclConfig_t* config) {
  const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  if (config == nullptr || config->size != initial.size || config->magic != initial.magic ||
      config->version != initial.version)
    world().defect("a configuration of a communicator that was not initialised");
}

/// Checks the stream of an operation. It must be on the communicator's device. The product's transfers have
/// high priority, so that they do not wait behind the kernels of a stage.
void check_stream(const Part& part, const standin::Stream& stream) {
  if (stream.device != part.communicator->device)
    world().defect(fmt::format("{} on a stream of another device than its communicator's", part.name));
  if (!stream.has_high_priority)
    world().defect(fmt::format("{} on a stream without high priority", part.name));
}

/// Checks the numbers of an operation.
ncclResult_t check_numbers(std::size_t count, ncclDataType_t type) {
  if (count == 0) world().defect("an operation of NCCL without numbers");
  return type < 0 || type >= ncclNumTypes ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t give(std::shared_ptr<Part> part, Meeting& meeting, cudaStream_t stream) {
  check_stream(*part, *reinterpret_cast<standin::Stream*>(stream));
  group.given.push_back({reinterpret_cast<standin::Stream*>(stream), part, &meeting});
  if (group.depth > 0) return ncclSuccess;
  launch_group();
  return world().nccl.state(*part->communicator);
}

/// Checks the addresses of a part. They must be aligned to the numbers. A reduce-scatter may write into its
/// input only at the rank's own part.
void check_places(const Part& part) {
  const std::size_t each = standin::bytes_of(part.type);
  const auto from = reinterpret_cast<std::uintptr_t>(part.from);
  const auto to = reinterpret_cast<std::uintptr_t>(part.to);
  if (from % each != 0 || to % each != 0)
    world().defect(fmt::format("{} of memory that is not aligned to its numbers", part.name));
  if (std::string_view(part.name) != "ncclReduceScatter") return;
  const std::size_t own = part.count * each;
  const std::size_t members = static_cast<std::size_t>(part.communicator->clique->size);
  const bool is_apart = to + own <= from || to >= from + own * members;
  const bool is_in_place = to == from + own * static_cast<std::size_t>(part.communicator->rank);
  if (!is_apart && !is_in_place) world().defect(fmt::format("{} into another one's part", part.name));
}

ncclResult_t transfer(const char* name, const void* from, void* to, std::size_t count, ncclDataType_t type,
                      int peer, ncclComm_t handle, cudaStream_t stream) {
  if (const ncclResult_t result = enter(name); result != ncclSuccess) return result;
  Communicator& communicator = of(handle);
  if (const ncclResult_t result = check_use(communicator, name); result != ncclSuccess) return result;
  if (peer < 0 || peer >= communicator.clique->size) return ncclInvalidArgument;
  if (const ncclResult_t result = check_numbers(count, type); result != ncclSuccess) return result;
  maybe_fail_afterwards(communicator);
  const bool sends = from != nullptr;
  if (world().has_mutant("a receive is left out") && !sends && count > 4) return ncclSuccess;
  if (world().has_mutant("sizes differ") && !sends && count > 4) --count;
  const std::pair edge = sends ? std::pair(communicator.rank, peer) : std::pair(peer, communicator.rank);
  // If a rank sends to itself, both ends have separate counters.
  const auto key = std::pair(sends ? edge.first : -1 - edge.first, edge.second);
  const std::uint64_t number = communicator.transfers[key]++;
  Meeting& meeting = communicator.clique->transfers[{edge.first, edge.second, number}];
  meeting.parts.resize(2);
  auto part = std::make_shared<Part>(Part{&communicator, name, from, to, count, type});
  check_places(*part);
  meeting.parts[sends ? 0 : 1] = part;
  if (world().has_mutant("communicators stay in progress")) communicator.settled = [] { return false; };
  world().nccl.connect(communicator, kTransfer, edge.first, edge.second, count * standin::bytes_of(type));
  return give(std::move(part), meeting, stream);
}

ncclResult_t collective(const char* name, int kind, const void* from, void* to, std::size_t count,
                        ncclDataType_t type, ncclComm_t handle, cudaStream_t stream) {
  if (const ncclResult_t result = enter(name); result != ncclSuccess) return result;
  Communicator& communicator = of(handle);
  if (const ncclResult_t result = check_use(communicator, name); result != ncclSuccess) return result;
  if (const ncclResult_t result = check_numbers(count, type); result != ncclSuccess) return result;
  maybe_fail_afterwards(communicator);
  Meeting& meeting = communicator.clique->collectives[communicator.collectives++];
  meeting.parts.resize(static_cast<std::size_t>(communicator.clique->size));
  auto part = std::make_shared<Part>(Part{&communicator, name, from, to, count, type});
  check_places(*part);
  meeting.parts[static_cast<std::size_t>(communicator.rank)] = part;
  world().nccl.connect(communicator, kind, -1, -1, count * standin::bytes_of(type));
  return give(std::move(part), meeting, stream);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = world().setting.nccl_version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const ncclResult_t result = enter("ncclGetUniqueId"); result != ncclSuccess) return result;
  std::memset(id, 0, sizeof(*id));
  const std::string name = world().nccl.new_id();
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (const ncclResult_t result = enter("ncclCommInitRankConfig"); result != ncclSuccess) return result;
  if (size < 1 || rank < 0 || rank >= size) return ncclInvalidArgument;
  check_config(config);
  if (size > 1 && std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT") == nullptr)
    world().defect("NCCL starts without a stated launch order");
  if (config == nullptr || config->blocking != 0) world().defect("a communicator that blocks its thread");
  if (config == nullptr || config->maxCTAs < 1 || config->maxCTAs > 4)
    world().defect("a communicator whose kernels may take more than 4 SMs");
  Communicator* made = world().nccl.join(id.internal, size, rank, standin::this_thread->device);
  *handle = reinterpret_cast<ncclComm_t>(made);
  if (world().has_mutant("communicators never open")) made->settled = [] { return false; };
  group.opened.push_back(made);
  if (group.depth > 0) return ncclSuccess;
  open_group();
  return world().nccl.state(*made);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  const bool fails = world().note_call("ncclCommGetAsyncError");
  world().scheduler.spend(200);
  if (fails) return ncclSystemError;
  if (of(handle).gone) world().defect("ncclCommGetAsyncError of a communicator that is gone");
  *state = world().nccl.state(of(handle));
  if (*state == ncclInProgress) world().scheduler.told_not_yet(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  if (const ncclResult_t result = enter("ncclCommFinalize"); result != ncclSuccess) return result;
  Communicator& communicator = of(handle);
  if (const ncclResult_t result = check_use(communicator, "ncclCommFinalize"); result != ncclSuccess)
    return result;
  communicator.settled = [&communicator] {
    return communicator.pending == 0 && !world().has_mutant("communicators never close");
  };
  return world().nccl.state(communicator);
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const ncclResult_t result = enter("ncclCommDestroy");
  Communicator& communicator = of(handle);
  if (communicator.gone) world().defect("ncclCommDestroy of a communicator that is gone");
  if (communicator.pending > 0) world().defect("ncclCommDestroy of a communicator with operations in flight");
  communicator.gone = !world().has_mutant("communicators are never closed");
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const ncclResult_t result = enter("ncclCommAbort");
  if (of(handle).gone) world().defect("ncclCommAbort of a communicator that is gone");
  group.aborted.push_back(&of(handle));
  if (group.depth == 0) world().nccl.abort(std::exchange(group.aborted, {}));
  return result;
}

ncclResult_t ncclGroupStart() {
  if (const ncclResult_t result = enter("ncclGroupStart"); result != ncclSuccess) return result;
  if (!world().has_mutant("aborts one by one")) ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const ncclResult_t result = enter("ncclGroupEnd");
  if (group.depth > 0 && --group.depth > 0) return result;
  bool is_in_progress = open_group();
  is_in_progress |= std::ranges::any_of(group.given, [](const Group::Given& given) {
    return world().nccl.state(*given.part->communicator) == ncclInProgress;
  });
  launch_group();
  if (!group.aborted.empty()) world().nccl.abort(std::exchange(group.aborted, {}));
  return result == ncclSuccess && is_in_progress ? ncclInProgress : result;
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  if (world().has_mutant("send and receive swapped")) {
    return transfer("ncclRecv", nullptr, const_cast<void*>(from), count, type, peer, handle, stream);
  }
  return transfer("ncclSend", from, nullptr, count, type, peer, handle, stream);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  return transfer("ncclRecv", nullptr, to, count, type, peer, handle, stream);
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t sum, ncclComm_t handle, cudaStream_t stream) {
  if (sum != ncclSum) world().defect("an all-reduce that does not add");
  // Each call on gradients adds one tensor. The first one has three numbers (traced_modules.cpp).
  if (world().is_timed && count != 3 && world().has_mutant("only the first tensor is added"))
    return ncclSuccess;
  return collective("ncclAllReduce", 1, from, to, count, type, handle, stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t sum, ncclComm_t handle, cudaStream_t stream) {
  if (sum != ncclSum) world().defect("a reduce-scatter that does not add");
  if (!world().is_timed && world().has_mutant("no greeting by reduce-scatter")) return ncclSuccess;
  return collective("ncclReduceScatter", 3, from, to, count, type, handle, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t handle, cudaStream_t stream) {
  return collective("ncclAllGather", 4, from, to, count, type, handle, stream);
}

}  // extern "C"
