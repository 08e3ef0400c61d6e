// All that is slow happens here, before the clock starts: communicators are opened in the order of the plan
// and each is used once, since NCCL connects two ranks at their first message. Both in the same order on all
// ranks, or two that wait for each other's next communicator would wait for ever.

#include "backend/nccl/session.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <driver_types.h>
#include <fmt/format.h>
#include <nccl.h>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/nccl/communicator.hpp"
#include "backend/nccl/communicator_plan.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

constexpr std::chrono::seconds kUntilClosed(5);

/// The most that a collective moves; a barrier the least.
std::size_t bytes_of_collective(const FlatProgram& flat, const CostTable& costs, const FlatMessage& message) {
  if (flat.ops[index(message.first)] == FlatOp::barrier) return kLeastBytes;
  const StageCost& stage = costs.stages[index(flat.actions[index(message.first)].stage)];
  const auto bytes = static_cast<std::size_t>(std::max(stage.gradients, stage.weights));
  return (bytes + kLeastBytes - 1) / kLeastBytes * kLeastBytes;
}

/// All that are sent, by communicator.
std::map<CommunicatorPlan, std::set<std::size_t>> message_sizes(const FlatProgram& flat,
                                                                const CostTable& costs) {
  std::map<CommunicatorPlan, std::set<std::size_t>> sizes;
  for (const FlatMessage& message : flat.messages) {
    const std::size_t bytes = message.recv == kNone ? bytes_of_collective(flat, costs, message)
                                                    : static_cast<std::size_t>(message.bytes);
    sizes[communicator_of(flat, message)].insert(std::max(kLeastBytes, bytes));
  }
  return sizes;
}

/// By communicator: how many slots the rank needs, which it uses in turns: from the oldest message or
/// collective that it has not taken to the newest that it asks for.
class SlotCount {
 public:
  SlotCount(const FlatProgram& flat, std::int32_t rank) : flat_(flat) {
    for (std::int32_t p = flat.rank_begin[index(rank)]; p < flat.rank_begin[index(rank) + 1]; ++p) {
      const FlatOp op = flat.ops[index(p)];
      if (op == FlatOp::recv || op == FlatOp::collective || op == FlatOp::barrier)
        ask(flat.message[index(p)]);
      if (op == FlatOp::barrier) take(flat.message[index(p)]);
      if (op != FlatOp::compute) continue;
      for (std::int32_t w = flat.next_wait[index(p)]; w != kNone; w = flat.next_wait[index(w)]) {
        take(flat.message[index(w)]);
      }
    }
  }
  std::size_t most(const CommunicatorPlan& plan) const { return windows_.at(plan).most; }

 private:
  struct Window {
    std::deque<std::int32_t> asked;  // those in front that have been taken are gone
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

NcclSession::NcclSession(const NcclSessionParts& parts)
    : parts_(parts),
      store_(parts.store, std::chrono::duration_cast<std::chrono::milliseconds>(parts.deadline)) {
  try {
    open_all();
  } catch (...) {
    abort();  // before any memory is freed
    throw;
  }
}

void NcclSession::open_all() {
  const std::vector<CommunicatorPlan> plans = communicators_of(parts_.flat);
  for (std::size_t number = 0; number < plans.size(); ++number) {
    if (std::ranges::find(plans[number].ranks, parts_.rank) != plans[number].ranks.end()) {
      open(plans[number], number);
    }
  }
  make_buffers();
  const std::map<CommunicatorPlan, std::set<std::size_t>> sizes = message_sizes(parts_.flat, parts_.costs);
  for (const CommunicatorPlan& plan : plans) {
    if (const auto mine = lines_.find(plan); mine != lines_.end()) greet(mine->second, sizes.at(plan));
  }
}

/// As many landing places as program order lets be asked for and not taken; of collectives one a member for
/// each.
void NcclSession::make_buffers() {
  const std::map<CommunicatorPlan, std::set<std::size_t>> sizes = message_sizes(parts_.flat, parts_.costs);
  const SlotCount count(parts_.flat, parts_.rank);
  for (auto& [plan, line] : lines_) {
    const std::size_t bytes = *sizes.at(plan).rbegin();
    if (plan.kind == CommunicatorKind::edge && plan.ranks.front() == parts_.rank) {
      line.outgoing = DeviceBuffer(parts_.device, bytes);
      continue;
    }
    line.turns = count.most(plan);
    const std::size_t members = plan.kind == CommunicatorKind::group ? plan.ranks.size() : 1;
    for (std::size_t i = 0; i < line.turns * members; ++i) {
      line.slots.push_back(
          {.memory = DeviceBuffer(parts_.device, bytes), .consumed = CudaEvent(parts_.device)});
    }
  }
}

void* NcclSession::grown(DeviceBuffer& buffer, std::size_t bytes) {
  if (buffer.bytes() < bytes) outgrown_.push_back(std::exchange(buffer, DeviceBuffer(parts_.device, bytes)));
  return buffer.data();
}

void NcclSession::open(const CommunicatorPlan& plan, std::size_t number) {
  const std::string key = fmt::format("id/{}", number);
  std::string id;
  if (plan.ranks.front() == parts_.rank) {
    id = new_unique_id();
    store_.set(key, id);
  } else {
    id = store_.get(key, limits(),
                    fmt::format("rank {} for communicator {}", plan.ranks.front(), to_text(plan)));
  }
  auto communicator = std::make_unique<Communicator>(plan, parts_.rank, id, limits());
  lines_.emplace(plan, Line{.stream = CudaStream(parts_.device, CudaStream::Priority::high),
                            .turns = 0,
                            .slots = {},
                            .outgoing = {},
                            .communicator = std::move(communicator)});
}

/// A message of each size along an edge; a sum, and a part from each member, among a group.
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
    communicator.settle(ncclSend(line.outgoing.data(), bytes, ncclInt8, 1, communicator.handle(), stream),
                        "ncclSend", limits());
    return;
  }
  void* memory = line.slots.front().memory.data();
  if (communicator.plan().kind == CommunicatorKind::edge) {
    communicator.settle(ncclRecv(memory, bytes, ncclInt8, 0, communicator.handle(), stream), "ncclRecv",
                        limits());
    return;
  }
  communicator.settle(
      ncclAllReduce(memory, memory, bytes / sizeof(float), ncclFloat, ncclSum, communicator.handle(), stream),
      "ncclAllReduce", limits());
  communicator.settle(ncclBroadcast(memory, memory, bytes, ncclInt8, 0, communicator.handle(), stream),
                      "ncclBroadcast", limits());
}

NcclSession::~NcclSession() {
  try {
    for (auto& [plan, line] : lines_) line.communicator->close({.stopped = {}, .deadline = kUntilClosed});
  } catch (const std::exception&) {
    abort();
  }
}

void NcclSession::check() const {
  for (const auto& [plan, line] : lines_) line.communicator->check();
}

void NcclSession::abort() {
  {
    const AbortTogether together;
    for (auto& [plan, line] : lines_) line.communicator->abort();
  }
  lines_.clear();
}

void prepare_nccl_environment(const std::string& address) {
  // No other thread runs yet, and POSIX has setenv() in <cstdlib>.
  // NOLINTBEGIN(concurrency-mt-unsafe,misc-include-cleaner)
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  if (address.starts_with("127.") || address == "localhost") setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  // NOLINTEND(concurrency-mt-unsafe,misc-include-cleaner)
}

bool starts_in_launch_order() {
  const char* asked =
      std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return asked == nullptr || std::string_view(asked) != "0";
}

}  // namespace penstock
