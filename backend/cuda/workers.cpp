// Assigns hardware to workers and checks that they do not slow each other down. If there are enough GPUs,
// each worker gets one. Otherwise the first GPU is divided into partitions of SMs (green contexts), and
// some SMs remain for links. Test kernels report the SMs on which they run. If two partitions share an SM,
// create() returns an error.

#include "backend/cuda/workers.hpp"

#include <cuda_runtime_api.h>
#include <driver_types.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/kernels.hpp"
#include "backend/cuda/stream.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

/// The number of thread blocks that report the SMs on which they run. It is several times the number of SMs
/// of a GPU, so that every SM of a partition gets a block.
constexpr std::int32_t kBlocksToFindSms = 1024;
constexpr std::chrono::seconds kUntilSeen(10);  // the blocks take only a few times 200 us
constexpr std::int32_t kLeastCapability = 9;  // lowest compute capability for which the kernels are compiled

/// Lets each device access the memory of all others directly, if the hardware supports it. Otherwise copies
/// go through the host.
void connect_peers(std::int32_t count) {
  for (std::int32_t from = 0; from < count; ++from) {
    use_device(from);
    for (std::int32_t to = 0; to < count; ++to) {
      int reaches = 0;
      if (to == from || cudaDeviceCanAccessPeer(&reaches, from, to) != cudaSuccess || reaches == 0) continue;
      const cudaError_t result = cudaDeviceEnablePeerAccess(to, 0);
      if (result == cudaErrorPeerAccessAlreadyEnabled) {
        static_cast<void>(cudaGetLastError());
      } else {
        check_cuda(result, "cudaDeviceEnablePeerAccess");
      }
    }
  }
}

}  // namespace

CudaWorkers CudaWorkers::whole_device(std::int32_t device) {
  CudaWorkers workers;
  workers.streams_.emplace_back(device, CudaStream::Priority::normal);
  int sms = 0;
  check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  workers.places_.push_back({.stream = workers.streams_.back().view(), .sms = sms, .whole = true});
  workers.description_ = fmt::format("device {}", device);
  return workers;
}

tl::expected<CudaWorkers, std::string> CudaWorkers::partitions(std::int32_t count, const std::string& name) {
  const auto rules = sm_rules_of(0);
  if (!rules) return tl::unexpected(rules.error());
  const auto split = split_sms(*rules, count);
  if (!split) return tl::unexpected(split.error());
  auto contexts = GreenContexts::create(0, *split);
  if (!contexts) return tl::unexpected(contexts.error());
  CudaWorkers workers;
  workers.contexts_ = *std::move(contexts);
  std::vector<std::vector<std::uint32_t>> seen;
  for (std::int32_t worker = 0; worker < count; ++worker) {
    workers.streams_.push_back(workers.contexts_->worker_stream(worker));
    workers.places_.push_back({.stream = workers.streams_.back().view(),
                               .sms = workers.contexts_->granted()[static_cast<std::size_t>(worker)],
                               .whole = false});
    seen.push_back(sms_of_stream(workers.streams_.back().view()));
  }
  // This check uses the SMs that test kernels have reported. There is no other method to verify the driver's
  // answer.
  if (const std::string shared = shared_sm(seen); !shared.empty()) {
    return tl::unexpected(
        fmt::format("the partitions of {} share SMs: {}; measurements on them would be wrong", name, shared));
  }
  workers.description_ = fmt::format("{} partitions of {} SMs on {}, {} left for links", count,
                                     workers.places_.front().sms, name, workers.contexts_->spare());
  return workers;
}

tl::expected<CudaWorkers, std::string> CudaWorkers::create(std::int32_t count) {
  const auto devices = cuda_devices();
  if (!devices) return tl::unexpected(devices.error());
  for (const CudaDevice& device : *devices) {
    if (device.major >= kLeastCapability) continue;
    return tl::unexpected(
        fmt::format("device {} ({}) has compute capability {}.{}, the kernels are compiled for {}.0 and "
                    "newer; hide it by CUDA_VISIBLE_DEVICES",
                    device.number, device.name, device.major, device.minor, kLeastCapability));
  }
  // If there are fewer GPUs than workers, all workers share the first GPU.
  if (std::cmp_less(devices->size(), count)) return partitions(count, devices->front().name);
  connect_peers(count);
  CudaWorkers workers;
  for (std::int32_t worker = 0; worker < count; ++worker) {
    workers.streams_.emplace_back(worker, CudaStream::Priority::normal);
    workers.places_.push_back({.stream = workers.streams_.back().view(),
                               .sms = (*devices)[static_cast<std::size_t>(worker)].sm_count,
                               .whole = true});
  }
  workers.description_ = fmt::format("{} devices, the first of them {}", count, devices->front().name);
  return workers;
}

CudaStream CudaWorkers::link_stream(std::int32_t worker) const {
  if (!contexts_) return {place(worker).stream.device, CudaStream::Priority::high};
  // If no SMs are left, copies run in the worker's own partition, and can_pace_links() returns false.
  return contexts_->spare() > 0 ? contexts_->spare_stream() : contexts_->worker_stream(worker);
}

std::vector<std::uint32_t> sms_of_stream(const StreamView& stream) {
  const std::size_t bytes = kBlocksToFindSms * sizeof(std::uint32_t);
  const DeviceBuffer numbers(stream.device, bytes);
  launch_sm_numbers(static_cast<std::uint32_t*>(numbers.data()), kBlocksToFindSms, stream.stream);
  wait_for(stream, {.stopped = {}, .deadline = kUntilSeen});
  std::vector<std::uint32_t> seen(kBlocksToFindSms);
  check_cuda(cudaMemcpy(seen.data(), numbers.data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::ranges::sort(seen);
  const auto repeated = std::ranges::unique(seen);
  seen.erase(repeated.begin(), repeated.end());
  return seen;
}

std::string shared_sm(const std::vector<std::vector<std::uint32_t>>& of_partitions) {
  std::map<std::uint32_t, std::size_t> owners;
  for (std::size_t partition = 0; partition < of_partitions.size(); ++partition) {
    for (const std::uint32_t sm : of_partitions[partition]) {
      const auto [owner, is_new] = owners.emplace(sm, partition);
      if (is_new || owner->second == partition) continue;
      return fmt::format("partitions {} and {} both ran on SM {}", owner->second, partition, sm);
    }
  }
  return {};
}

}  // namespace penstock

// Counts the GPUs. A process must start CUDA to count them, and children that it forks later cannot use CUDA.
// Therefore a forked child counts the GPUs, writes the number to a pipe, and ends.
//
// misc-include-cleaner expects some declarations from <cstdlib>, but here they come from <sys/wait.h>.
// NOLINTBEGIN(misc-include-cleaner)

namespace penstock {
namespace {

tl::expected<std::int32_t, std::string> device_count() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) {
    return tl::unexpected("no GPU can be used: " + in_words(result, "cudaGetDeviceCount"));
  }
  if (count == 0) return tl::unexpected(std::string("no GPU can be used: the driver shows none"));
  return count;
}

CudaDevice device_of(std::int32_t number) {
  cudaDeviceProp facts{};
  check_cuda(cudaGetDeviceProperties(&facts, number), "cudaGetDeviceProperties");
  return {.number = number,
          .name = facts.name,
          .sm_count = facts.multiProcessorCount,
          .major = facts.major,
          .minor = facts.minor,
          .memory_bytes = facts.totalGlobalMem};
}

tl::expected<std::int32_t, std::string> least_sms_of(std::int32_t devices) {
  int least = std::numeric_limits<int>::max();
  for (std::int32_t device = 0; device < devices; ++device) {
    int sms = 0;
    const cudaError_t result = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (result != cudaSuccess) return tl::unexpected(in_words(result, "cudaDeviceGetAttribute"));
    least = std::min(least, sms);
  }
  return least;
}

/// Writes the number of GPUs and the number of SMs to the pipe, such as "8 132", or an error text. Runs in
/// the child process.
void answer(int pipe_end) {
  const auto count = device_count();
  const auto sms = count.and_then(least_sms_of);
  std::string words = sms ? fmt::format("{} {}", *count, *sms) : sms.error();
  if (words.find(cudaGetErrorName(cudaErrorInitializationError)) != std::string::npos) {
    words +=
        "; a forked process gets this error if its parent has started CUDA, which is a fault of penstock; "
        "please report it if nvidia-smi lists the GPUs";
  }
  static_cast<void>(::write(pipe_end, words.data(), words.size()));
}

std::string all_of(int pipe_end) {
  std::string words;
  std::array<char, 512> piece{};
  for (;;) {
    const ssize_t got = ::read(pipe_end, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return words;
    words.append(piece.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

tl::expected<std::vector<CudaDevice>, std::string> cuda_devices() {
  const auto count = device_count();
  if (!count) return tl::unexpected(count.error());
  std::vector<CudaDevice> devices;
  devices.reserve(static_cast<std::size_t>(*count));
  for (std::int32_t number = 0; number < *count; ++number) devices.push_back(device_of(number));
  return devices;
}

std::string uuid_of(std::int32_t device) {
  cudaDeviceProp facts{};
  check_cuda(cudaGetDeviceProperties(&facts, device), "cudaGetDeviceProperties");
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(facts.uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(facts.uuid.bytes[i]));
  }
  return text;
}

tl::expected<CudaDeviceCount, std::string> cuda_device_count_by_child() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return tl::unexpected(std::string("cannot make a pipe"));
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    answer(ends[1]);
    _exit(0);
  }
  // The parent must close its writing end. Otherwise reading from the pipe would never reach the end.
  close(ends[1]);
  const std::string words = child < 0 ? "cannot start a process to look for GPUs" : all_of(ends[0]);
  close(ends[0]);
  // waitpid() removes the ended child here, so that no other code mistakes it for a rank's process.
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  const std::size_t space = words.find(' ');
  const auto devices = number_of_text<std::int32_t>(words.substr(0, space));
  const auto sms = number_of_text<std::int32_t>(space == std::string::npos ? "" : words.substr(space + 1));
  if (devices && sms) return CudaDeviceCount{.devices = *devices, .least_sms = *sms};
  return tl::unexpected(words.empty() ? "the process that looked for GPUs died" : words);
}

}  // namespace penstock

// NOLINTEND(misc-include-cleaner)
