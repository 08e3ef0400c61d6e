// Tests properties of the hardware that the backend needs and that no header guarantees. Then it tests copies
// between GPUs. Each test of a single GPU relies on the tests before it:
//
//     timer -> holds -> partitions apart, and at work at once -> copies between them, beside their work ->
//     launches ahead
//
// tests/backend/standin/self_tests_test.cpp runs these checks on a model of CUDA.

#include "backend/cuda/self_test.hpp"

#include <cuda_runtime_api.h>
#include <driver_types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

namespace {

constexpr std::chrono::seconds kCheckDeadline(20);
const WaitLimits kCheckLimits{.stopped = {}, .deadline = kCheckDeadline};

Ns since(std::uint64_t begin, std::uint64_t end) { return static_cast<Ns>(end - begin); }

// --- the timer, and holds ---

/// Finds the resolution of the device's timer. It is the step of which all differences between time stamps
/// are multiples.
DeviceCheck check_timer(const StreamView& stream) {
  constexpr std::size_t kStamps = 512;
  const PinnedMoments moments(kStamps);
  for (std::size_t i = 0; i < kStamps; ++i) launch_stamp(moments.slot(i), stream.stream);
  wait_for(stream, kCheckLimits);
  std::uint64_t step = 0;
  for (std::size_t i = 1; i < kStamps; ++i) {
    if (moments.moment(i) < moments.moment(i - 1)) {
      return {.name = {},
              .found = "it went back between two stamps of one stream",
              .verdict = DeviceCheck::Verdict::wrong};
    }
    step = std::gcd(step, moments.moment(i) - moments.moment(i - 1));
  }
  const Ns all = since(moments.moment(0), moments.moment(kStamps - 1));
  return {.name = {},
          .found = fmt::format("steps of {}, a stamp takes {}", format_duration(static_cast<Ns>(step)),
                               format_duration(all / static_cast<Ns>(kStamps - 1)))};
}

/// Checks that a kernel with a requested time runs for at least this time, and at most 100 us longer.
DeviceCheck check_holds(const StreamView& stream) {
  constexpr Ns kMostOver = 100'000;
  const PinnedMoments moments(2);
  Ns most = 0;
  for (const Ns duration : {100'000, 1'000'000, 5'000'000, 20'000'000}) {
    launch_stamp(moments.slot(0), stream.stream);
    launch_hold(static_cast<std::uint64_t>(duration), stream.stream);
    launch_stamp(moments.slot(1), stream.stream);
    wait_for(stream, kCheckLimits);
    const Ns over = since(moments.moment(0), moments.moment(1)) - duration;
    if (over < 0 || over > kMostOver) {
      return {.name = {},
              .found = fmt::format("{} took {} more", format_duration(duration), format_duration(over)),
              .verdict = DeviceCheck::Verdict::wrong};
    }
    most = std::max(most, over);
  }
  return {.name = {}, .found = fmt::format("at most {} longer than stated", format_duration(most))};
}

// --- partitions ---

/// Checks that all partitions of the GPU can compute at the same time. CudaWorkers::create() has already
/// tested that they share no SM.
DeviceCheck check_partitions(std::int32_t count) {
  constexpr Ns kHold = 3'000'000;
  const auto workers = CudaWorkers::create(count);
  if (!workers) return {.name = {}, .found = workers.error(), .verdict = DeviceCheck::Verdict::missing};
  // If each worker has a whole GPU, this test is skipped. It compares time stamps, and the timers of
  // different GPUs do not start at a common time.
  if (workers->place(0).whole)
    return {.name = {}, .found = workers->description() + "; no partitions are needed"};
  const PinnedMoments moments(2 * static_cast<std::size_t>(count));
  for (std::int32_t worker = 0; worker < count; ++worker) {
    const StreamView& stream = workers->place(worker).stream;
    use_device(stream.device);
    launch_stamp(moments.slot(start_slot(worker)), stream.stream);
    launch_hold(kHold, stream.stream);
    launch_stamp(moments.slot(end_slot(worker)), stream.stream);
  }
  for (std::int32_t worker = 0; worker < count; ++worker)
    wait_for(workers->place(worker).stream, kCheckLimits);
  std::uint64_t first = moments.moment(0);
  std::uint64_t last = moments.moment(1);
  for (std::int32_t worker = 1; worker < count; ++worker) {
    first = std::min(first, moments.moment(start_slot(worker)));
    last = std::max(last, moments.moment(end_slot(worker)));
  }
  const Ns taken = since(first, last);
  return {.name = {},
          .found = fmt::format("{}; holds of {} on all took {}", workers->description(),
                               format_duration(kHold), format_duration(taken)),
          .verdict = taken < 2 * kHold ? DeviceCheck::Verdict::right : DeviceCheck::Verdict::wrong};
}

/// The duration of a copy, and the first wrong number in the copied data, if any.
struct CopyFound {
  Ns taken_ns = 0;
  std::string wrong{};
};

CopyFound copied(const DeviceBuffer& from, const DeviceBuffer& to, std::size_t bytes,
                 const StreamView& stream) {
  const PinnedMoments moments(2);
  check_cuda(cudaMemsetAsync(to.data(), 0, bytes, stream.stream), "cudaMemsetAsync");
  launch_stamp(moments.slot(0), stream.stream);
  check_cuda(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDefault, stream.stream),
             "cudaMemcpyAsync");
  launch_stamp(moments.slot(1), stream.stream);
  wait_for(stream, kCheckLimits);
  std::vector<double> numbers(bytes / sizeof(double));
  check_cuda(cudaMemcpy(numbers.data(), to.data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  CopyFound found{.taken_ns = since(moments.moment(0), moments.moment(1))};
  for (std::size_t i = 0; i < numbers.size() && found.wrong.empty(); ++i) {
    if (numbers[i] != static_cast<double>(i) + 1)
      found.wrong = fmt::format("number {} came as {}, was sent as {}", i, numbers[i], i + 1);
  }
  return found;
}

/// Checks that a copy between two workers is correct, and that copies run while the workers compute.
DeviceCheck check_copies() {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  constexpr Ns kHold = 20'000'000;
  const auto workers = CudaWorkers::create(2);
  if (!workers) return {.name = {}, .found = workers.error(), .verdict = DeviceCheck::Verdict::missing};
  const StreamView& compute = workers->place(0).stream;
  const CudaStream link = workers->link_stream(0);
  const DeviceBuffer from(compute.device, kBytes);
  const DeviceBuffer to(workers->place(1).stream.device, kBytes);
  use_device(compute.device);
  launch_count_up(static_cast<double*>(from.data()), kBytes / sizeof(double), 1, compute.stream);
  wait_for(compute, kCheckLimits);
  // The first copy is not measured, because it takes longer: CUDA loads code and allocates memory that later
  // copies reuse.
  static_cast<void>(copied(from, to, kBytes, link.view()));
  const CopyFound alone = copied(from, to, kBytes, link.view());
  for (std::int32_t worker = 0; worker < workers->count(); ++worker) {
    use_device(workers->place(worker).stream.device);
    launch_hold(kHold, workers->place(worker).stream.stream);
  }
  use_device(compute.device);
  const CopyFound busy = copied(from, to, kBytes, link.view());
  for (std::int32_t worker = 0; worker < workers->count(); ++worker)
    wait_for(workers->place(worker).stream, kCheckLimits);
  for (const CopyFound& copy : {alone, busy}) {
    if (!copy.wrong.empty()) return {.name = {}, .found = copy.wrong, .verdict = DeviceCheck::Verdict::wrong};
  }
  return {.name = {},
          .found = fmt::format("16 MiB from one to the other in {} alone, in {} while both hold",
                               format_duration(alone.taken_ns), format_duration(busy.taken_ns)),
          .verdict = busy.taken_ns < kHold ? DeviceCheck::Verdict::right : DeviceCheck::Verdict::wrong};
}

// --- launches ---

/// Finds how many kernel launches a stream accepts before the next one blocks the host's thread.
DeviceCheck check_launches(const StreamView& stream) {
  constexpr int kMost = 8192;
  constexpr Ns kHold = 60'000'000;
  constexpr std::chrono::milliseconds kBlocked(2);
  // Work of an earlier check may never end. The launches below would then block forever, so the thread first
  // waits here with a time limit.
  wait_for(stream, kCheckLimits);
  const PinnedMoments moments(1);
  launch_hold(kHold, stream.stream);
  const auto begin = std::chrono::steady_clock::now();
  auto last = begin;
  int taken = 0;
  bool blocks = false;
  while (taken < kMost && !blocks && last - begin < std::chrono::nanoseconds(kHold / 2)) {
    launch_stamp(moments.slot(0), stream.stream);
    const auto now = std::chrono::steady_clock::now();
    blocks = now - last > kBlocked;
    last = now;
    ++taken;
  }
  const Ns each = std::chrono::nanoseconds(last - begin).count() / std::max(1, taken);
  wait_for(stream, kCheckLimits);
  if (blocks)
    return {.name = {}, .found = fmt::format("a stream takes {}; the next one blocks the host", taken - 1)};
  return {.name = {}, .found = fmt::format("none of {} blocked, {} each", taken, format_duration(each))};
}

}  // namespace

DeviceCheck checked(std::string name, const std::function<DeviceCheck()>& check) {
  DeviceCheck found;
  try {
    found = check();
  } catch (const std::exception& error) {
    found = {.name = {}, .found = error.what(), .verdict = DeviceCheck::Verdict::wrong};
  }
  found.name = std::move(name);
  return found;
}

std::vector<DeviceCheck> check_device(std::int32_t device) {
  use_device(device);
  const CudaStream stream(device, CudaStream::Priority::normal);
  std::vector<DeviceCheck> checks;
  checks.push_back(checked("timer", [&] { return check_timer(stream.view()); }));
  checks.push_back(checked("holds", [&] { return check_holds(stream.view()); }));
  for (const std::int32_t count : {2, 4, 8})
    checks.push_back(checked(fmt::format("{} workers", count), [&] { return check_partitions(count); }));
  checks.push_back(checked("copies", check_copies));
  use_device(device);
  checks.push_back(checked("launches ahead", [&] { return check_launches(stream.view()); }));
  return checks;
}

bool all_right(const std::vector<DeviceCheck>& checks) {
  return std::ranges::none_of(
      checks, [](const DeviceCheck& check) { return check.verdict == DeviceCheck::Verdict::wrong; });
}

std::string to_text(const std::vector<DeviceCheck>& checks) {
  std::string text;
  for (const DeviceCheck& check : checks) {
    const char* verdict = check.verdict == DeviceCheck::Verdict::right     ? "right"
                          : check.verdict == DeviceCheck::Verdict::missing ? "missing"
                                                                           : "WRONG";
    text += fmt::format("{}: {}: {}\n", check.name, check.found, verdict);
  }
  return text;
}

// Tests whether copies between the GPUs of this machine are correct, and how fast they are. Each sender
// copies increasing numbers, which begin at a different value for each sender. A line latency + bytes /
// bandwidth is fitted to the times of copies up to 64 MiB. Known numbers are also copied around a ring of all
// GPUs. Tests: tests/backend/standin/self_tests_test.cpp.

namespace {

constexpr int kWarmup = 5;
constexpr int kSamples = 20;
constexpr std::size_t kPingBytes = 8;
constexpr std::size_t kRingBytes = std::size_t{16} << 20;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::chrono::seconds kDeadline(30);
const WaitLimits kLimits{.stopped = {}, .deadline = kDeadline};

/// The stream and the buffers that the test of copies uses on one GPU.
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

/// Measures how long the host waits for `work`. Requires that `work` returns only when its GPU work has
/// ended.
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

/// Enables direct copies from one GPU to another. Returns true if the hardware supports them.
bool connect(std::int32_t from, std::int32_t to) {
  int reaches = 0;
  check_cuda(cudaDeviceCanAccessPeer(&reaches, from, to), "cudaDeviceCanAccessPeer");
  if (reaches == 0) return false;
  use_device(from);
  const cudaError_t result = cudaDeviceEnablePeerAccess(to, 0);
  // If the access is already enabled, CUDA stores this as an error, which the next launch would report. So
  // the error is cleared here.
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
  // The numbers begin at a different value for each sender, so that numbers of an earlier pair in the buffer
  // are detected as wrong.
  count_up(from, 1000.0 * pair.from);
  copy(from.sent.data(), to.received, kMostBytes, stream);
  pair.wrong = difference(to.received, kMostBytes, 1000.0 * pair.from);
  return pair;
}

/// Copies the numbers of the first GPU from GPU to GPU around the ring and back to it. Checks the numbers and
/// measures the time.
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
