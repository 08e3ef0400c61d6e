// Tests whether copies between the GPUs of this machine arrive correctly, and how fast they are. Each sender
// copies increasing numbers that start at its own value. The times of copies up to 64 MiB give the line
// latency + bytes / bandwidth. Known numbers also pass around a ring of all GPUs. Tests:
// tests/backend/standin/self_tests_test.cpp.

#include "backend/cuda/self_test.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <driver_types.h>
#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/calibration/line_fit.hpp"
#include "backend/cuda/cuda_error.hpp"
#include "backend/cuda/device_checks.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/devices.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

constexpr int kWarmup = 5;
constexpr int kSamples = 20;
constexpr std::size_t kPingBytes = 8;
constexpr std::size_t kRingBytes = std::size_t{16} << 20;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::chrono::seconds kDeadline(30);
const WaitLimits kLimits{.stopped = {}, .deadline = kDeadline};

/// The stream and the buffers that the test uses on one GPU.
struct Station {
  explicit Station(std::int32_t number)
      : stream(number, CudaStream::Priority::high), sent(number, kMostBytes), received(number, kMostBytes) {}
  CudaStream stream;
  DeviceBuffer sent;
  DeviceBuffer received;
};

/// Fills the station's send buffer with the numbers start, start + 1, and so on.
void count_up(const Station& station, double start) {
  use_device(station.sent.device());
  launch_count_up(static_cast<double*>(station.sent.data()), kMostBytes / sizeof(double), start,
                  station.stream.view().stream);
  wait_for(station.stream.view(), kLimits);
}

void copy(const void* from, const DeviceBuffer& to, std::size_t bytes, const StreamView& stream) {
  use_device(stream.device);
  check_cuda(cudaMemcpyAsync(to.data(), from, bytes, cudaMemcpyDefault, stream.stream), "cudaMemcpyAsync");
  wait_for(stream, kLimits);
}

/// Returns a text about the first wrong number in the buffer. Returns an empty text if the numbers are start,
/// start + 1, and so on.
std::string difference(const DeviceBuffer& buffer, std::size_t bytes, double start) {
  std::vector<double> numbers(bytes / sizeof(double));
  check_cuda(cudaMemcpy(numbers.data(), buffer.data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double sent = start + static_cast<double>(i);
    if (numbers[i] != sent) return fmt::format("number {} came as {}, was sent as {}", i, numbers[i], sent);
  }
  return {};
}

/// Measures the host time of `work`. Requires that `work` returns only when its GPU work has ended.
Spread timed(const std::function<void()>& work) {
  std::vector<Ns> samples;
  for (int i = 0; i < kWarmup + kSamples; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const auto taken = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin);
    if (i >= kWarmup) samples.push_back(taken.count());
  }
  return spread_of(std::move(samples));
}

/// Enables direct copies between two GPUs. Returns true if the hardware supports them.
bool connect(std::int32_t from, std::int32_t to) {
  int reaches = 0;
  check_cuda(cudaDeviceCanAccessPeer(&reaches, from, to), "cudaDeviceCanAccessPeer");
  if (reaches == 0) return false;
  use_device(from);
  const cudaError_t result = cudaDeviceEnablePeerAccess(to, 0);
  // CUDA stores "already enabled" as an error. It is cleared, because the next launch would otherwise report
  // it.
  static_cast<void>(cudaGetLastError());
  return result == cudaSuccess || result == cudaErrorPeerAccessAlreadyEnabled;
}

PairCheck check_pair(const Station& from, const Station& to) {
  PairCheck pair{.from = from.sent.device(), .to = to.sent.device()};
  pair.direct = connect(pair.from, pair.to);
  const StreamView& stream = from.stream.view();
  pair.ping = timed([&] { copy(from.sent.data(), to.received, kPingBytes, stream); });
  std::vector<LinePoint> points;
  // Only large sizes are used. All small copies take about the same time, so they would distort the line.
  for (std::size_t bytes = std::size_t{1} << 20; bytes <= kMostBytes; bytes *= 4) {
    const Spread taken = timed([&] { copy(from.sent.data(), to.received, bytes, stream); });
    points.push_back({.x = static_cast<double>(bytes), .y = static_cast<double>(taken.median_ns)});
  }
  const Line line = fit_line(points);
  pair.latency_ns = std::max<Ns>(0, std::llround(line.constant));
  pair.bytes_per_second = line.slope > 0 ? 1e9 / line.slope : 0;
  // Each sender starts at its own value. Numbers that an earlier pair left in the buffer are then recognised
  // as wrong.
  count_up(from, 1000.0 * pair.from);
  copy(from.sent.data(), to.received, kMostBytes, stream);
  pair.wrong = difference(to.received, kMostBytes, 1000.0 * pair.from);
  return pair;
}

/// Copies the numbers of the first GPU from GPU to GPU around the ring and back, and checks and times this.
void check_ring(const std::vector<Station>& stations, SelfTest& test) {
  count_up(stations.front(), 7);
  const auto around = [&] {
    const void* carried = stations.front().sent.data();
    for (std::size_t hop = 0; hop < stations.size(); ++hop) {
      const Station& to = stations[(hop + 1) % stations.size()];
      copy(carried, to.received, kRingBytes, stations[hop].stream.view());
      carried = to.received.data();
    }
  };
  test.ring_ns = timed(around).median_ns;
  test.ring_wrong = difference(stations.front().received, kRingBytes, 7);
}

}  // namespace

bool SelfTest::all_right() const {
  return penstock::all_right(checks) && ring_wrong.empty() &&
         std::ranges::all_of(pairs, [](const PairCheck& pair) { return pair.wrong.empty(); });
}

tl::expected<SelfTest, std::string> self_test() {
  const auto devices = cuda_devices();
  if (!devices) return tl::unexpected(devices.error());
  SelfTest test;
  for (const CudaDevice& device : *devices) test.devices.push_back(device.name);
  test.checks = check_device(devices->front().number);
  if (devices->size() < 2) return test;
  std::vector<Station> stations;
  stations.reserve(devices->size());
  for (const CudaDevice& device : *devices) stations.emplace_back(device.number);
  for (const Station& from : stations) {
    for (const Station& to : stations) {
      if (&from != &to) test.pairs.push_back(check_pair(from, to));
    }
  }
  check_ring(stations, test);
  return test;
}

std::string to_text(const SelfTest& test) {
  std::string text = format_count(static_cast<std::int64_t>(test.devices.size()), "GPU") + "\n";
  for (std::size_t i = 0; i < test.devices.size(); ++i) text += fmt::format("  {}: {}\n", i, test.devices[i]);
  text += to_text(test.checks);
  for (const PairCheck& pair : test.pairs) {
    text += fmt::format("{} -> {}: ping {}, fit {} and {:.1f} GB/s, {}: {}\n", pair.from, pair.to,
                        format_duration(pair.ping.median_ns), format_duration(pair.latency_ns),
                        1e-9 * pair.bytes_per_second, pair.direct ? "direct" : "through the host",
                        pair.wrong.empty() ? "right" : "WRONG: " + pair.wrong);
  }
  if (test.devices.size() < 2) return text;
  text += fmt::format("ring of {}: {} for 16 MiB around: {}\n", test.devices.size(),
                      format_duration(test.ring_ns),
                      test.ring_wrong.empty() ? "right" : "WRONG: " + test.ring_wrong);
  return text;
}

}  // namespace penstock
