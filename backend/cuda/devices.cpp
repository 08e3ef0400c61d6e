// Counts the GPUs. A process must start CUDA to count them, and after that its forked children cannot use
// CUDA. A forked child therefore counts the GPUs, writes the number to a pipe, and ends.

#include "backend/cuda/devices.hpp"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <driver_types.h>
#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/cuda_error.hpp"
#include "text/numbers.hpp"

// The declarations that misc-include-cleaner expects from <cstdlib> are in <sys/wait.h> here.
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

/// Writes the number of GPUs or the error text to the pipe. Runs in the child.
void answer(int pipe_end) {
  const auto count = device_count();
  const std::string words = count ? fmt::format("{}", *count) : count.error();
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

tl::expected<std::int32_t, std::string> cuda_device_count_by_child() {
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
  // The child is reaped here, so that no other code takes it for a rank's process that has ended.
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  if (const auto count = number_of_text<std::int32_t>(words)) return *count;
  return tl::unexpected(words.empty() ? "the process that looked for GPUs died" : words);
}

}  // namespace penstock

// NOLINTEND(misc-include-cleaner)
