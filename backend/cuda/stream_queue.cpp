// Enqueues the actions of a rank. Each action is enclosed by two kernels that record the time, and by two
// events that the host polls:
//
//     stream   event | stamp | the action's kernels | stamp | event    begun, ended: kMostAhead of each,
//                                                                      in turn
//
// The transport enqueues its waits for messages (cudaStreamWaitEvent) before the first event. Tests:
// tests/backend/standin.

#include "backend/cuda/stream_queue.hpp"
#include "backend/cuda/launch_count.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

namespace {

// The largest number of unfinished actions. Each makes at least four launches: two events and two stamps.
constexpr std::size_t kMostAhead = kMostLaunches / 4;

/// Returns how many groups of compute actions and WAITs the rank enqueues on its stream in one run.
std::size_t actions_of(const FlatProgram& flat, std::int32_t rank) {
  const auto begin = flat.ops.begin() + flat.rank_begin[index(rank)];
  const auto end = flat.ops.begin() + flat.rank_begin[index(rank) + 1];
  return static_cast<std::size_t>(
      std::count_if(begin, end, [](FlatOp op) { return op == FlatOp::compute || op == FlatOp::wait; }));
}

std::vector<CudaEvent> new_events(std::int32_t device, std::size_t count) {
  std::vector<CudaEvent> events;
  events.reserve(count);
  for (std::size_t i = 0; i < count; ++i) events.emplace_back(device);
  return events;
}

}  // namespace

StreamQueue::StreamQueue(const FlatProgram& flat, std::int32_t rank, const StreamView& stream,
                         std::shared_ptr<LaunchCounts> counts, const DeviceTime& device_time)
    : stream_(stream),
      counts_(std::move(counts)),
      device_time_(device_time),
      moments_(2 * actions_of(flat, rank)),
      begun_(new_events(stream.device, std::clamp<std::size_t>(actions_of(flat, rank), 1, kMostAhead))),
      ended_(new_events(stream.device, begun_.size())) {}

void StreamQueue::begin(std::int32_t number) {
  use_device(stream_.device);
  // This event is recorded before the time stamp. When the event has passed, the action no longer waits for
  // its inputs.
  event(begun_, number).record(stream_);
  launch_stamp(moments_.slot(start_slot(number)), stream_.stream);
}

void StreamQueue::end(std::int32_t number) {
  use_device(stream_.device);
  launch_stamp(moments_.slot(end_slot(number)), stream_.stream);
  // This event is recorded after the time stamp. When the event has passed, both times are written.
  event(ended_, number).record(stream_);
}

MessageTime StreamQueue::time_of(std::int32_t number) const {
  return {.start_ns = device_time_.of(moments_.moment(start_slot(number))),
          .end_ns = device_time_.of(moments_.moment(end_slot(number)))};
}

std::vector<std::unique_ptr<StreamQueue>> stream_queues(const FlatProgram& flat, const CudaWorkers& workers,
                                                        const Clock& clock, double scale,
                                                        const LaunchCountsOfRanks& counts) {
  std::vector<std::unique_ptr<StreamQueue>> queues;
  queues.reserve(index(flat.rank_count));
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    const StreamView& stream = workers.place(rank).stream;
    queues.push_back(std::make_unique<StreamQueue>(flat, rank, stream, counts[index(rank)],
                                                   DeviceTime(clock, scale, stream)));
  }
  return queues;
}

LaunchCountsOfRanks no_launch_counts(std::int32_t ranks) {
  LaunchCountsOfRanks counts;
  for (std::int32_t rank = 0; rank < ranks; ++rank) counts.push_back(std::make_shared<LaunchCounts>());
  return counts;
}

// Compares the device's timer with the host's clock. A kernel records the device's time between two readings
// of the host's clock. Of several tries, the one with the shortest time between the two readings is used. The
// kernel is assumed to run in the middle of this time:
//
//     host     before ---------------- after        the error is at most half of the time between them
//     device            stamp

namespace {

// The number of tries. The first tries are slow, because CUDA loads the kernel and the GPU leaves its idle
// state.
constexpr int kTries = 20;
constexpr std::chrono::seconds kMostForAll(10);

}  // namespace

DeviceTime::DeviceTime(const Clock& clock, double scale, const StreamView& stream,
                       const std::function<bool()>& stopped)
    : scale_(scale) {
  const auto until = std::chrono::steady_clock::now() + kMostForAll;
  use_device(stream.device);
  const PinnedMoments moments(1);
  CudaEvent written(stream.device);
  Ns narrowest = std::numeric_limits<Ns>::max();
  for (int i = 0; i < kTries; ++i) {
    const Ns before = clock.now_ns();
    launch_stamp(moments.slot(0), stream.stream);
    written.record(stream);
    // The thread polls without sleeping, because a sleep would add to the error.
    watch(written, {.stopped = stopped, .deadline = until - std::chrono::steady_clock::now()});
    const Ns after = clock.now_ns();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    clock_ns_ = before + (after - before) / 2;
    moment_ = moments.moment(0);
  }
}

Ns DeviceTime::of(std::uint64_t moment) const {
  // The difference is signed, because `moment` may be earlier than moment_.
  const auto later = static_cast<std::int64_t>(moment - moment_);
  return clock_ns_ + std::llround(static_cast<double>(later) / scale_);
}

}  // namespace penstock
