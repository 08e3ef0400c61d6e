// The prediction's costs are measured where nothing of a schedule runs yet:
//
//   alone   worker 0  |work|work|work|...     what a partition takes by itself
//
//   busy    worker 0  |work|work|work|...     what it takes while the others do the same: its median is
//           worker 1  |work|work|work|...     the cost of an action, since in a full pipeline all work
//           ...
//
//   copies  time = latency + bytes / bandwidth: a line through the medians of 0, 1, 4, 16 and 64 MiB
//
// So a run that is as long as predicted says that the schedule was understood, not that a constant was
// fitted.

#include "bench/gpu/gpu_calibration.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"

namespace penstock {
namespace {

constexpr int kUnmeasured = 5;  // warm-ups
constexpr int kSamples = 30;
constexpr std::chrono::seconds kArrivalDeadline(30);

/// Wall time of one call.
Ns time_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

/// Samples of `work` on worker 0, while the workers behind it do the same, or nothing.
Spread sampled(const std::function<void(std::size_t worker)>& work, std::size_t workers) {
  std::atomic<bool> done = false;
  std::vector<std::jthread> others;
  for (std::size_t worker = 1; worker < workers; ++worker) {
    others.emplace_back([&, worker] {
      wake_this_thread_promptly();
      while (!done) work(worker);
    });
  }
  wake_this_thread_promptly();
  for (int i = 0; i < kUnmeasured; ++i) work(0);
  std::vector<Ns> samples;
  for (int i = 0; i < kSamples; ++i) samples.push_back(time_of([&] { work(0); }));
  done = true;
  return spread_of(samples);
}

}  // namespace

Ns unit_of(GpuWorkload workload, const std::vector<std::unique_ptr<WorkClock>>& clocks) {
  if (workload == GpuWorkload::occupy) return 1000;
  constexpr std::int64_t kUnits = 10;
  const Spread of_units =
      sampled([&](std::size_t worker) { clocks[worker]->do_units(kUnits); }, clocks.size());
  return std::max<Ns>(1, of_units.median_ns / kUnits);
}

std::map<Ns, WorkTimes> measure_work(const std::vector<std::unique_ptr<WorkClock>>& clocks,
                                     const std::set<Ns>& durations) {
  std::map<Ns, WorkTimes> times;
  for (const Ns duration : durations) {
    const auto work = [&](std::size_t worker) { clocks[worker]->work_for(duration); };
    times[duration] = {.alone = sampled(work, 1), .busy = sampled(work, clocks.size())};
  }
  return times;
}

// A line through the medians of all sizes: time = latency + bytes / bandwidth. The smallest copy is of 4
// bytes, not of 0, which would ask for nothing.
CopyTimes measure_copies(const CudaWorkers& workers) {
  const CudaStream stream = workers.link_stream(0);
  CudaEvent arrived(stream.view().device);
  std::vector<LinePoint> points;
  for (const std::size_t mebibytes : {0, 1, 4, 16, 64}) {
    const std::size_t bytes = std::max<std::size_t>(4, mebibytes << 20);
    const DeviceBuffer from(workers.place(0).stream.device, bytes);
    const DeviceBuffer to(workers.place(workers.count() - 1).stream.device, bytes);
    use_device(stream.view().device);
    const auto copy = [&](std::size_t) {
      check_cuda(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDefault, stream.view().stream),
                 "cudaMemcpyAsync");
      arrived.record(stream.view());
      wait_for(arrived, {.stopped = {}, .deadline = kArrivalDeadline});
    };
    points.push_back({.x = static_cast<double>(bytes), .y = static_cast<double>(sampled(copy, 1).median_ns)});
  }
  const Line line = fit_line(points);
  return {.latency_ns = std::max<Ns>(0, std::llround(line.constant)),
          .bytes_per_second = line.slope > 0 ? 1e9 / line.slope : 1e15};
}

}  // namespace penstock
