// All that is slow happens here, before the clock starts: communicators are opened in the order of the plan
// and each is used once, since NCCL connects two ranks at their first message. Both in the same order on all
// ranks, or two that wait for each other's next communicator would wait for ever.

#include "backend/nccl/session.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
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

namespace penstock {
namespace {

constexpr std::chrono::seconds kUntilClosed(5);
constexpr std::size_t kGreetingBytes = 4;

}  // namespace

NcclSession::NcclSession(const NcclSessionParts& parts)
    : parts_(parts),
      store_(parts.store, std::chrono::duration_cast<std::chrono::milliseconds>(parts.deadline)) {
  const std::vector<CommunicatorPlan> plans = communicators_of(parts.flat);
  for (std::size_t number = 0; number < plans.size(); ++number) {
    if (std::ranges::find(plans[number].ranks, parts.rank) != plans[number].ranks.end()) {
      open(plans[number], number);
    }
  }
  for (const CommunicatorPlan& plan : plans) {
    if (const auto mine = lines_.find(plan); mine != lines_.end()) greet(mine->second);
  }
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
                            .communicator = std::move(communicator)});
}

/// A few bytes along an edge, or a sum among a group.
void NcclSession::greet(Line& line) {
  const Communicator& communicator = *line.communicator;
  if (greeting_.data() == nullptr) greeting_ = DeviceBuffer(parts_.device, kGreetingBytes);
  const cudaStream_t stream = line.stream.view().stream;
  if (communicator.plan().kind == CommunicatorKind::group) {
    communicator.settle(ncclAllReduce(greeting_.data(), greeting_.data(), 1, ncclFloat, ncclSum,
                                      communicator.handle(), stream),
                        "ncclAllReduce", limits());
  } else if (communicator.own_number() == 0) {
    communicator.settle(
        ncclSend(greeting_.data(), kGreetingBytes, ncclInt8, 1, communicator.handle(), stream), "ncclSend",
        limits());
  } else {
    communicator.settle(
        ncclRecv(greeting_.data(), kGreetingBytes, ncclInt8, 0, communicator.handle(), stream), "ncclRecv",
        limits());
  }
  wait_for(line.stream.view(), {.stopped =
                                    [&] {
                                      communicator.check();
                                      return parts_.stopped && parts_.stopped();
                                    },
                                .deadline = parts_.deadline});
}

NcclSession::~NcclSession() {
  try {
    for (auto& [plan, line] : lines_) line.communicator->close({.stopped = {}, .deadline = kUntilClosed});
  } catch (const std::exception&) {
    abort();
  }
}

void NcclSession::abort() { lines_.clear(); }

void prepare_nccl_environment(const std::string& address) {
  // No other thread runs yet, and POSIX has setenv() in <cstdlib>.
  // NOLINTBEGIN(concurrency-mt-unsafe,misc-include-cleaner)
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  if (address.starts_with("127.") || address == "localhost") setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  // NOLINTEND(concurrency-mt-unsafe,misc-include-cleaner)
}

}  // namespace penstock
