// Does all slow work before the clock starts. It opens the communicators together and sends messages of every
// size over each communicator, because NCCL connects two ranks only at the first message of a size. All ranks
// send them in the same order. Otherwise two ranks could wait for each other forever. Tests:
// tests/backend/standin.

#include "backend/nccl/session.hpp"

#include <driver_types.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {

namespace {

/// The time limit for closing a communicator. A peer that has failed never closes its end, so the
/// communicator is aborted after this time.
constexpr std::chrono::seconds kUntilClosed(5);
constexpr std::size_t kMostBytesOfNumber = 8;  // bytes of a float64, the largest number type
constexpr std::chrono::seconds kUntilAborted(30);

/// Returns the bytes of a collective according to the cost table. They are the stage's gradients, or for an
/// UNSHARD one member's part of the weights.
std::size_t bytes_by_costs(const FlatProgram& flat, const CostTable& costs, const FlatMessage& message,
                           std::size_t members) {
  const Action& action = flat.actions[index(message.first)];
  const StageCost& stage = costs.stages[index(action.stage)];
  if (action.kind != ActionKind::unshard) return static_cast<std::size_t>(stage.gradients);
  return (static_cast<std::size_t>(stage.weights) + members - 1) / members;
}

/// Returns the key of a communicator's unique id in the store. `number` is its index in communicators_of().
std::string key_of(std::size_t number) { return fmt::format("id/{}", number); }

std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// A counter of the buffer slots that the rank needs for each communicator. Slots are used cyclically. The
/// rank needs a slot for each message from the oldest message that is not yet used to the newest message
/// that is requested.
class SlotCount {
 public:
  SlotCount(const FlatProgram& flat, std::int32_t rank) : flat_(flat) {
    for (std::int32_t p = flat.rank_begin[index(rank)]; p < flat.rank_begin[index(rank) + 1]; ++p) {
      const FlatOp op = flat.ops[index(p)];
      if (op == FlatOp::recv || op == FlatOp::collective || op == FlatOp::barrier)
        ask(flat.message[index(p)]);
      // A barrier has no result, so its slot is free at once.
      if (op == FlatOp::barrier) take(flat.message[index(p)]);
      if (op != FlatOp::compute && op != FlatOp::wait) continue;
      for (std::int32_t w = flat.next_wait[index(p)]; w != kNone; w = flat.next_wait[index(w)]) {
        // A WAIT for a SEND frees no slot, because a slot belongs to a receiver.
        if (flat.ops[index(w)] != FlatOp::send) take(flat.message[index(w)]);
      }
    }
  }
  std::size_t most(const CommunicatorPlan& plan) const { return windows_.at(plan).most; }

 private:
  struct Window {
    // The requested messages, oldest first. The first message is removed when it has been used.
    std::deque<std::int32_t> asked;
    std::set<std::int32_t> taken;
    std::size_t most = 0;
  };
  Window& window_of(std::int32_t message) {
    return windows_[communicator_of(flat_, flat_.messages[index(message)])];
  }
  void ask(std::int32_t message) {
    Window& window = window_of(message);
    window.asked.push_back(message);
    window.most = std::max(window.most, window.asked.size());
  }
  void take(std::int32_t message) {
    Window& window = window_of(message);
    window.taken.insert(message);
    while (!window.asked.empty() && window.taken.contains(window.asked.front())) window.asked.pop_front();
  }

  const FlatProgram& flat_;
  std::map<CommunicatorPlan, Window> windows_;
};

}  // namespace

/// The state of an abort of all communicators. The session and the thread that aborts share it, because the
/// thread may outlive the session.
struct NcclSession::Aborting {
  std::map<CommunicatorPlan, Line> lines;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

NcclSession::NcclSession(const NcclSessionParts& parts)
    : parts_(parts), store_(parts.store, limits()), layouts_(parts.flat, parts.rank, store_, parts.codec) {
  try {
    open_all();
  } catch (...) {
    abort();  // must run before any memory is freed
    throw;
  }
}

/// First publishes all unique ids that this rank makes, so that no rank waits for another one's openings.
/// Then opens all communicators at the same time.
void NcclSession::open_all() {
  const std::vector<CommunicatorPlan> plans = communicators_of(parts_.flat);
  std::vector<std::string> ids(plans.size());
  for (std::size_t number = 0; number < plans.size(); ++number) {
    if (plans[number].ranks.front() != parts_.rank) continue;
    ids[number] = new_unique_id();
    store_.set(key_of(number), ids[number], limits());
  }
  check_gpus();
  std::vector<std::size_t> mine;
  for (std::size_t number = 0; number < plans.size(); ++number) {
    const CommunicatorPlan& plan = plans[number];
    if (std::ranges::find(plan.ranks, parts_.rank) == plan.ranks.end()) continue;
    mine.push_back(number);
    lines_.emplace(plan, Line{.stream = CudaStream(parts_.device, CudaStream::Priority::high),
                              .slots = {},
                              .outgoing = {},
                              .communicator = nullptr});
    if (!ids[number].empty()) continue;
    ids[number] = store_.get(key_of(number), limits(),
                             fmt::format("rank {} for communicator {}", plan.ranks.front(), to_text(plan)));
  }
  {
    const GroupOfCalls together;
    for (const std::size_t number : mine) {
      lines_.at(plans[number]).communicator =
          std::make_unique<Communicator>(plans[number], parts_.rank, ids[number], limits(), parts_.max_ctas);
    }
  }
  for (const std::size_t number : mine) lines_.at(plans[number]).communicator->wait_until_open();
}

/// Publishes this rank's GPU, and checks that no GPU has more ranks than it may have. NCCL detects this
/// mistake only between two ranks of one communicator. Its error does not say how to correct the mistake.
void NcclSession::check_gpus() {
  if (!parts_.checks_gpus) return;
  store_.set(fmt::format("gpu/{}", parts_.rank), uuid_of(parts_.device), limits());
  std::map<std::string, std::vector<std::int32_t>> ranks;  // the ranks of each GPU
  for (std::int32_t rank = 0; rank < parts_.flat.rank_count; ++rank) {
    const std::string gpu =
        store_.get(fmt::format("gpu/{}", rank), limits(), fmt::format("rank {}: its GPU", rank));
    ranks[gpu].push_back(rank);
  }
  for (const auto& [gpu, on_it] : ranks) {
    if (std::cmp_less_equal(on_it.size(), parts_.ranks_per_gpu)) continue;
    throw std::runtime_error(
        fmt::format("ranks {} have the same GPU, {}: give each process a GPU of its own, for example with "
                    "srun --gpus-per-task=1, or place several ranks on a GPU with --ranks-per-gpu {}",
                    fmt::join(on_it, ", "), gpu, on_it.size()));
  }
}

void NcclSession::make_ready() {
  try {
    const Sizes sizes = message_sizes();
    make_buffers(sizes);
    for (const CommunicatorPlan& plan : communicators_of(parts_.flat)) {
      if (const auto mine = lines_.find(plan); mine != lines_.end()) greet(mine->second, sizes.at(plan));
    }
  } catch (...) {
    abort();  // must run before any memory is freed
    throw;
  }
}

/// Returns the sizes in bytes of this rank's messages, without duplicates, for each communicator.
NcclSession::Sizes NcclSession::message_sizes() const {
  Sizes sizes;
  for (std::size_t id = 0; id < parts_.flat.messages.size(); ++id) {
    const CommunicatorPlan plan = communicator_of(parts_.flat, parts_.flat.messages[id]);
    if (lines_.contains(plan)) sizes[plan].insert(bytes_of(static_cast<std::int32_t>(id)));
  }
  return sizes;
}

std::size_t NcclSession::bytes_of(std::int32_t message) const {
  const FlatMessage& flat = parts_.flat.messages[index(message)];
  std::size_t bytes = 0;
  if (flat.recv != kNone) {
    const AgreedLayout& layout = layouts_.of(message);
    bytes = layout ? layout->bytes : static_cast<std::size_t>(flat.bytes);
  } else if (parts_.flat.ops[index(flat.first)] != FlatOp::barrier) {
    const std::vector<AgreedLayout> parts = layouts_.of_members(message);
    if (parts_.codec == nullptr)
      bytes = rounded_up(bytes_by_costs(parts_.flat, parts_.costs, flat, parts.size()), kLeastBytes);
    for (const AgreedLayout& part : parts) bytes = std::max(bytes, part ? part->bytes : 0);
    if (scatters(message)) bytes = rounded_up(bytes, parts.size() * kMostBytesOfNumber);
  }
  return std::max(kLeastBytes, bytes);
}

bool NcclSession::scatters(std::int32_t message) const {
  const FlatMessage& flat = parts_.flat.messages[index(message)];
  const bool is_sum = flat.recv == kNone && parts_.flat.ops[index(flat.first)] != FlatOp::barrier &&
                      parts_.flat.actions[index(flat.first)].kind != ActionKind::unshard;
  if (!parts_.scatters || !is_sum) return false;
  const AgreedLayout layout = layouts_.of_sum(message);
  // A reduce-scatter divides the buffer into equal parts. The parts have equally many numbers only if all
  // numbers have one type and there are no gaps.
  if (layout && layout->has_gaps) return false;
  return !layout || std::ranges::all_of(layout->runs, [&](const DeviceRun& run) {
    return run.type == layout->runs.front().type;
  });
}

/// Allocates the buffers of all communicators. The number of slots is the result of SlotCount. The buffer of
/// a collective has room for the parts of all members.
void NcclSession::make_buffers(const Sizes& sizes) {
  const SlotCount count(parts_.flat, parts_.rank);
  for (auto& [plan, line] : lines_) {
    // Each slot has the size of the communicator's largest message, because every message may use any slot.
    const std::size_t bytes = *sizes.at(plan).rbegin();
    if (plan.kind == CommunicatorKind::edge && plan.ranks.front() == parts_.rank) {
      line.outgoing = DeviceBuffer(parts_.device, bytes, parts_.stopped);
      continue;
    }
    const std::size_t members = plan.kind == CommunicatorKind::group ? plan.ranks.size() : 1;
    for (std::size_t i = 0; i < count.most(plan); ++i) {
      line.slots.push_back({.memory = DeviceBuffer(parts_.device, bytes * members, parts_.stopped),
                            .consumed = CudaEvent(parts_.device)});
    }
  }
}

/// Sends one message of each size between the two ranks of an edge. In a group, runs a sum of each size, and
/// also a gather and a scattered sum if stages are sharded.
void NcclSession::greet(Line& line, const std::set<std::size_t>& sizes) {
  const Communicator& communicator = *line.communicator;
  for (const std::size_t bytes : sizes) greet_once(line, bytes);
  wait_for(line.stream.view(), {.stopped =
                                    [&] {
                                      communicator.check();
                                      return parts_.stopped && parts_.stopped();
                                    },
                                .deadline = parts_.deadline});
}

void NcclSession::greet_once(Line& line, std::size_t bytes) {
  const Communicator& communicator = *line.communicator;
  const cudaStream_t stream = line.stream.view().stream;
  if (communicator.plan().kind == CommunicatorKind::edge && communicator.own_number() == 0) {
    communicator.complete(ncclSend(line.outgoing.data(), bytes, ncclInt8, 1, communicator.handle(), stream),
                          "ncclSend", limits());
    return;
  }
  void* memory = line.slots.front().memory.data();
  if (communicator.plan().kind == CommunicatorKind::edge) {
    communicator.complete(ncclRecv(memory, bytes, ncclInt8, 0, communicator.handle(), stream), "ncclRecv",
                          limits());
    return;
  }
  communicator.complete(
      ncclAllReduce(memory, memory, bytes / sizeof(float), ncclFloat, ncclSum, communicator.handle(), stream),
      "ncclAllReduce", limits());
  if (!parts_.scatters) return;
  auto* own_part = static_cast<std::uint8_t*>(memory) + bytes * index(communicator.own_number());
  communicator.complete(ncclAllGather(own_part, memory, bytes, ncclInt8, communicator.handle(), stream),
                        "ncclAllGather", limits());
  // Each rank's part must be a whole number of floats, so that no part begins inside a number. If the message
  // is so small that it has less than one float for each rank, it is skipped.
  const std::size_t each = bytes / communicator.plan().ranks.size() / sizeof(float);
  if (each == 0) return;
  auto* numbers = static_cast<float*>(memory);
  communicator.complete(ncclReduceScatter(numbers, numbers + each * index(communicator.own_number()), each,
                                          ncclFloat, ncclSum, communicator.handle(), stream),
                        "ncclReduceScatter", limits());
}

NcclSession::~NcclSession() {
  try {
    for (auto& [plan, line] : lines_) line.communicator->close({.stopped = {}, .deadline = kUntilClosed});
  } catch (const std::exception&) {
    abort();
  }
  if (aborting_ == nullptr) return;
  for (const auto& [plan, line] : aborting_->lines) end_or_give_up(line.stream.view());
}

void NcclSession::check() const {
  for (const auto& [plan, line] : lines_) line.communicator->check();
}

/// Aborts all communicators on a separate thread. An abort waits until all launched operations have left
/// their streams. A kernel that never ends may prevent this. In that case, the thread and its data are never
/// freed. Otherwise the memory is freed at the end of the session, when other streams of the device have
/// ended.
void NcclSession::abort() {
  if (lines_.empty()) return;
  aborting_ = std::make_shared<Aborting>();
  aborting_->lines.swap(lines_);
  std::thread([aborting = aborting_, device = parts_.device] {
    use_device(device);
    {
      const GroupOfCalls together;
      for (auto& [plan, line] : aborting->lines) {
        if (line.communicator != nullptr) line.communicator->abort();
      }
    }
    const std::scoped_lock lock(aborting->mutex);
    aborting->done = true;
    aborting->changed.notify_all();
  }).detach();
  std::unique_lock lock(aborting_->mutex);
  if (aborting_->changed.wait_for(lock, kUntilAborted, [this] { return aborting_->done; })) return;
  // The thread and its data are never freed. From now on, no memory of the device may be freed.
  give_up_devices();
  lock.unlock();
  aborting_.reset();
}

void prepare_nccl_environment(const NcclEnvironment& wanted) {
  const bool is_loopback = wanted.address.starts_with("127.") || wanted.address == "localhost";
  // setenv() is safe here, because no other thread runs yet. POSIX declares setenv() in <cstdlib>.
  // NOLINTBEGIN(concurrency-mt-unsafe,misc-include-cleaner)
  // The launch order must be the one that the program was checked for, so a variable of the user is replaced.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", wanted.launch_order ? "1" : "0", 1);
  if (is_loopback) setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  if (wanted.shares_gpus) setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  // NOLINTEND(concurrency-mt-unsafe,misc-include-cleaner)
}

// Publishes the layouts of tensors. Each flow's layout is published once, under a key that names the flow,
// and is cached for all runs. Example: with two stages on ranks 0 and 1, and a replica of stage 1 on rank 2,
// the store has these keys:
//
//     layout/activations of stage 0 for stage 1, rank 0 to rank 1     6:4,8      one tensor of 4 x 8 floats
//     layout/gradients of stage 1, rank 2                             6:8,8;6:8

namespace {

// The text that is published for a null payload. The text of a layout contains no letters, so it cannot be
// equal to this text.
constexpr const char* kNull = "null";

}  // namespace

std::string Layouts::flow_of(std::int32_t message, std::int32_t rank) const {
  const FlatMessage& flat = flat_.messages[index(message)];
  const Action& action = flat_.actions[index(flat.first)];
  if (flat.recv == kNone) {
    return fmt::format("{} of stage {}, rank {}",
                       action.kind == ActionKind::unshard ? "weights" : "gradients", action.stage, rank);
  }
  const StageMessage moved = message_of(action);
  return fmt::format("{} of stage {} for stage {}, rank {} to rank {}",
                     moved.flow == Flow::gradient ? "gradients" : "activations", moved.from, moved.to,
                     flat.from_rank, flat.to_rank);
}

std::vector<std::int32_t> Layouts::members_of(std::int32_t message) const {
  std::vector<std::int32_t> ranks;
  for (std::int32_t m = flat_.messages[index(message)].first; m != kNone; m = flat_.next_member[index(m)])
    ranks.push_back(flat_.rank_of(m));
  std::ranges::sort(ranks);
  return ranks;
}

void Layouts::tell(std::int32_t message, const PayloadContent* content, const WaitLimits& limits) {
  if (codec_ == nullptr) {
    if (content == nullptr) return;
    throw std::logic_error("the modules send tensors, but nothing can pack them");
  }
  AgreedLayout layout;
  if (content != nullptr) layout = codec_->layout_of(*content);
  const std::string flow = flow_of(message, rank_);
  // The first message of a flow determines the layout of all its messages.
  const auto [known, is_new] = by_flow_.emplace(flow, layout);
  if (is_new) {
    store_.set("layout/" + flow, layout ? layout->text : kNull, limits);
  } else if (known->second != layout) {
    throw std::runtime_error(fmt::format(
        "messages of {} differ in their tensors' types or sizes, which the nccl transport does not do",
        flow));
  }
}

const AgreedLayout& Layouts::heard(const std::string& flow, std::int32_t from, const WaitLimits& limits) {
  if (const auto known = by_flow_.find(flow); known != by_flow_.end()) return known->second;
  AgreedLayout layout;
  if (codec_ != nullptr) {
    const std::string told =
        store_.get("layout/" + flow, limits, fmt::format("rank {}: how {} lie", from, flow));
    if (told != kNull) layout = codec_->layout_of_text(told);
  }
  return by_flow_.emplace(flow, std::move(layout)).first->second;
}

const AgreedLayout& Layouts::known(const std::string& flow) const {
  // Without a codec, all payloads are null, so there are no layouts.
  static const AgreedLayout null;
  if (codec_ == nullptr) return null;
  const auto found = by_flow_.find(flow);
  if (found == by_flow_.end()) throw std::logic_error("no layout is known for " + flow);
  return found->second;
}

const AgreedLayout& Layouts::hear(std::int32_t message, const WaitLimits& limits) {
  const std::int32_t from = flat_.messages[index(message)].from_rank;
  return heard(flow_of(message, from), from, limits);
}

std::vector<AgreedLayout> Layouts::hear_members(std::int32_t message, const WaitLimits& limits) {
  std::vector<AgreedLayout> layouts;
  for (const std::int32_t rank : members_of(message))
    layouts.push_back(heard(flow_of(message, rank), rank, limits));
  return layouts;
}

const AgreedLayout& Layouts::of(std::int32_t message) const {
  return known(flow_of(message, flat_.messages[index(message)].from_rank));
}

std::vector<AgreedLayout> Layouts::of_members(std::int32_t message) const {
  std::vector<AgreedLayout> layouts;
  for (const std::int32_t rank : members_of(message)) layouts.push_back(known(flow_of(message, rank)));
  return layouts;
}

AgreedLayout Layouts::of_sum(std::int32_t message) const {
  for (const AgreedLayout& layout : of_members(message)) {
    if (layout && layout->bytes > 0) return layout;
  }
  return std::nullopt;
}

}  // namespace penstock
