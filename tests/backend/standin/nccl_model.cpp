// The n-th send of a directed pair matches the n-th receive. The n-th collective of a communicator matches
// the n-th collective of every member. A started kernel remains on its stream until its peers have started.
// With launch order, a kernel starts only after all kernels that were launched before it in its context. So a
// program may hang although no check of channels refuses it:
//
//   launched on device 0:   RECV_B2           SEND_F3                        RECV_F4
//                           started, waits    its producer has not ended:    waits behind SEND_F3
//                           for its sender    it has not started
//
// An abort ends the started operations of its communicator, and waits until the others have left their
// streams.

#include "tests/backend/standin/nccl_model.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tests/backend/standin/device_facts.hpp"
#include "tests/backend/standin/world.hpp"

namespace standin {
namespace {

constexpr double kNsPerByte = 0.01;
constexpr Ns kTransferStarts = 5'000;
constexpr std::size_t kSmall = std::size_t{64} << 10;
constexpr std::size_t kMiddle = std::size_t{512} << 10;

/// Returns the size class of a message. NCCL uses several protocols for different sizes, and connects two
/// ranks for each protocol. The limits here are guesses.
int class_of(std::size_t bytes) { return bytes <= kSmall ? 0 : bytes <= kMiddle ? 1 : 2; }

/// Returns the sum of all members' contributions.
std::vector<std::byte> sum_of(const Meeting& meeting, std::size_t count, ncclDataType_t type) {
  std::vector<std::byte> sum(count * bytes_of(type));
  for (const auto& part : meeting.parts) {
    if (add_to(sum.data(), static_cast<const std::byte*>(part->from), count, type)) continue;
    world().defect(fmt::format("{} of a type that the stand-in cannot add", part->name));
    break;
  }
  return sum;
}

/// Checks that all members of a meeting request the same operation.
void judge(Meeting& meeting) {
  if (std::exchange(meeting.judged, true)) return;
  const Part& first = *meeting.parts.front();
  for (const auto& part : meeting.parts) {
    const bool matches = part->count == first.count && part->type == first.type;
    if (matches) continue;
    world().defect(fmt::format("{} of {} numbers of type {} meets {} of {} of type {}", first.name,
                               first.count, static_cast<int>(first.type), part->name, part->count,
                               static_cast<int>(part->type)));
  }
}

/// Does the work of a part for its own rank.
void carry_out(const Part& part, const Meeting& meeting) {
  const std::size_t bytes = part.count * bytes_of(part.type);
  const std::string_view name = part.name;
  if (name == "ncclRecv") {
    std::memmove(part.to, meeting.parts.front()->from,
                 std::min(bytes, meeting.parts.front()->count * bytes_of(meeting.parts.front()->type)));
  }
}

/// Does the work of a sum for all members at the same time. No contribution may change while another member
/// still reads it.
void carry_out_sum(Meeting& meeting) {
  const Part& first = *meeting.parts.front();
  const std::string_view name = first.name;
  if (name != "ncclAllReduce" && name != "ncclReduceScatter") return;
  const std::size_t members = meeting.parts.size();
  const std::size_t whole = name == "ncclReduceScatter" ? first.count * members : first.count;
  const std::vector<std::byte> sum = sum_of(meeting, whole, first.type);
  const std::size_t bytes = first.count * bytes_of(first.type);
  for (std::size_t i = 0; i < members; ++i) {
    const std::size_t begin = name == "ncclReduceScatter" ? i * bytes : 0;
    std::memcpy(meeting.parts[i]->to, sum.data() + begin, bytes);
  }
}

/// Copies each member's part of the whole (ncclAllGather).
void carry_out_gather(const Part& part, const Meeting& meeting) {
  const std::size_t bytes = part.count * bytes_of(part.type);
  for (std::size_t i = 0; i < meeting.parts.size(); ++i) {
    std::memmove(static_cast<std::byte*>(part.to) + i * bytes, meeting.parts[i]->from, bytes);
  }
}

/// Opens the communicators of the clique at this moment. Until then, the threads that poll them look at their
/// deadlines from time to time.
void go_on_opening(Clique& clique, Ns moment) {
  constexpr Ns kBetweenLooks = 100'000'000;
  const Ns now = world().scheduler.now();
  clique.is_open = now >= moment;
  world().scheduler.news();
  if (clique.is_open) return;
  world().scheduler.at(std::min(moment, now + kBetweenLooks),
                       [&clique, moment] { go_on_opening(clique, moment); });
}

bool is_on(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

/// NCCL reads its environment when the first communicator opens.
bool launch_order_is_on() {
  static const bool is_ordered =
      is_on("NCCL_LAUNCH_ORDER_IMPLICIT") && !world().has_mutant("the launch order is never set");
  return is_ordered || world().setting.past_the_checker;
}

/// The first NCCL that allows several ranks on a device is 2.30.
bool ranks_may_share_devices() {
  return world().setting.nccl_version >= 23000 && is_on("NCCL_MULTI_RANK_GPU_ENABLE");
}

}  // namespace

bool Meeting::all_started() const {
  return std::ranges::all_of(parts, [](const auto& part) { return part != nullptr && part->started; });
}

std::string NcclModel::new_id() { return fmt::format("clique {}", ++ids_); }

Communicator* NcclModel::join(const std::string& id, int size, int rank, int device) {
  auto& clique = cliques_[id];
  if (clique == nullptr) {
    clique = std::make_unique<Clique>();
    clique->size = size;
    clique->members.resize(static_cast<std::size_t>(size));
  }
  for (const Communicator* other : clique->members) {
    if (other != nullptr && other->device == device && !ranks_may_share_devices()) {
      world().defect("two ranks of a communicator on one device");
    }
  }
  communicators_.push_back(std::make_unique<Communicator>());
  Communicator& made = *communicators_.back();
  made.clique = clique.get();
  made.rank = rank;
  made.device = device;
  made.number = static_cast<std::uint64_t>(
      std::ranges::count(communicators_, device, [](const auto& one) { return one->device; }));
  clique->members[static_cast<std::size_t>(rank)] = &made;
  made.settled = [clique = clique.get()] { return clique->is_open; };
  return &made;
}

void NcclModel::begin_to_open(Communicator& communicator) {
  communicator.is_opening = true;
  const auto is_missing = [](const Communicator* member) { return member == nullptr || !member->is_opening; };
  if (std::ranges::any_of(communicator.clique->members, is_missing)) return;
  const Ns takes = static_cast<Ns>(world().setting.opening_seconds * 1e9);
  go_on_opening(*communicator.clique, world().scheduler.now() + takes);
}

ncclResult_t NcclModel::state(Communicator& communicator) {
  if (communicator.failure != ncclSuccess) return communicator.failure;
  if (!communicator.settled) return ncclSuccess;
  if (!communicator.settled()) return ncclInProgress;
  communicator.settled = nullptr;
  return ncclSuccess;
}

void NcclModel::connect(Communicator& communicator, int kind, int from, int to, std::size_t bytes) {
  auto& come = communicator.clique->connections[{kind, from, to, class_of(bytes)}];
  const std::size_t needed = from < 0     ? static_cast<std::size_t>(communicator.clique->size)
                             : from == to ? 1
                                          : 2;
  if (come.contains(communicator.rank)) return;
  if (!world().is_timed && world().has_mutant("connections are made at the first step")) return;
  world().note_allocation();
  come.insert(communicator.rank);
  communicator.settled = [&communicator, &come, needed] {
    return communicator.aborted || come.size() == needed;
  };
}

/// Returns true if all operations that its process launched before it on the device have started.
bool NcclModel::may_start(const Stream& stream, const std::shared_ptr<Launch>& launch) {
  if (!launch_order_is_on()) return true;
  auto& before = launched_[{stream.device, stream.process}];
  while (!before.empty() && before.front()->started) before.pop_front();
  for (const auto& other : before) {
    if (other == launch) return true;
    if (!other->started) return false;
  }
  return true;
}

void NcclModel::launch(Stream& stream, const std::vector<std::pair<std::shared_ptr<Part>, Meeting*>>& parts) {
  const auto launch =
      std::make_shared<Launch>(Launch{.name = parts.front().first->name, .stream = stream.slot});
  launched_[{stream.device, stream.process}].push_back(launch);
  Communicator& communicator = *parts.front().first->communicator;
  std::uint64_t& digest = digests_[stream.device];
  for (const auto& [part, meeting] : parts) {
    if (world().is_timed) world().timed_bytes[part->name] += part->count * bytes_of(part->type);
    for (const std::uint64_t number :
         {communicator.number, std::uint64_t{part->count}, std::uint64_t(part->name[4])})
      digest = (digest ^ number) * 0x100000001b3;
  }
  ++communicator.pending;
  auto operation = std::make_unique<Operation>();
  operation->name = parts.front().first->name;
  for (const auto& [part, meeting] : parts) {
    const std::size_t bytes = part->count * bytes_of(part->type);
    const std::size_t members = meeting->parts.size();
    const std::string_view name = part->name;
    const std::size_t all = bytes * members;
    if (part->from != nullptr) {
      operation->accesses.push_back({part->from, name == "ncclReduceScatter" ? all : bytes, false});
    }
    if (part->to != nullptr)
      operation->accesses.push_back({part->to, name == "ncclAllGather" ? all : bytes, true});
  }
  operation->may_start = [this, &stream, launch] { return may_start(stream, launch); };
  operation->started = [launch, parts, &stream] {
    launch->started = true;
    for (const auto& [part, meeting] : parts) {
      part->started = !part->communicator->aborted;  // an aborted part leaves its stream without a peer
      part->clock = stream.clock;
    }
  };
  operation->may_run = [parts, &communicator] {
    if (communicator.aborted) return true;
    return std::ranges::all_of(parts, [](const auto& one) { return one.second->all_started(); });
  };
  operation->run = [parts, &communicator, &stream]() -> Ns {
    if (communicator.aborted) {
      for (const auto& [part, meeting] : parts) part->started = false;
      return 0;
    }
    std::size_t bytes = 0;
    for (const auto& [part, meeting] : parts) {
      for (const auto& other : meeting->parts) stream.clock.join(other->clock);
      if (!meeting->judged) carry_out_sum(*meeting);
      judge(*meeting);
      carry_out(*part, *meeting);
      if (std::string_view(part->name) == "ncclAllGather") carry_out_gather(*part, *meeting);
      const bool gathers = std::string_view(part->name) == "ncclAllGather";
      bytes += part->count * bytes_of(part->type) * (gathers ? meeting->parts.size() : 1);
    }
    return kTransferStarts + static_cast<Ns>(static_cast<double>(bytes) * kNsPerByte);
  };
  operation->ended = [&communicator] { --communicator.pending; };
  if (world().is_timed && world().has_mutant("the end stamp stands before the operation")) {
    stream.behind_next_stamp = std::move(operation);
    return;
  }
  world().devices.give(stream, std::move(operation));
}

void NcclModel::abort(const std::vector<Communicator*>& communicators) {
  for (Communicator* communicator : communicators) communicator->aborted = true;
  world().scheduler.news();
  world().devices.start_what_can();
  world().scheduler.wait_until("aborts communicators", [&] {
    return std::ranges::all_of(communicators,
                               [](const auto* communicator) { return communicator->pending == 0; });
  });
  for (Communicator* communicator : communicators) communicator->gone = true;
}

void NcclModel::report_leaks() const {
  const auto left = std::ranges::count_if(communicators_, [](const auto& one) { return !one->gone; });
  if (left > 0) world().defect(fmt::format("leak: {} communicators", left));
}

std::uint64_t NcclModel::launch_digest() const {
  std::uint64_t all = 0;
  for (const auto& [device, digest] : digests_) all = (all ^ digest) * 0x100000001b3;
  return all;
}

std::string NcclModel::launches() const {
  std::string text;
  for (const auto& [place, launches] : launched_) {
    for (const auto& launch : launches) {
      if (launch->started) continue;
      text += fmt::format("\n  device {}: {} on stream {} has been launched and has not started", place.first,
                          launch->name, launch->stream);
    }
  }
  return text;
}

}  // namespace standin
