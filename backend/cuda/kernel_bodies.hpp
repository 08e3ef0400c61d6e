#pragma once
// The bodies of the kernels. nvcc compiles them for the device, and tests compile the same lines for the
// host. The parameter `here` represents the thread that runs the kernel. It has now(), nap(ns), sm(),
// block(), thread(), and first() and step() for loops over numbers. The file is C++17. Only kernels.cu and
// tests use it.

#include <cstdint>

#include <cuda_runtime_api.h>

namespace penstock::kernel_bodies {

// The number of ns before the end of a kernel in which it polls without naps.
constexpr std::uint64_t kShortOfTheEnd = 2000;
constexpr unsigned kNap = 500;  // length of one nap in ns; the hardware may take twice as long
// The time in ns for which a block occupies its SM, so that later blocks start on other SMs.
constexpr std::uint64_t kStay = 200000;

template <typename Here>
__device__ void stay_until(Here& here, std::uint64_t end) {
  for (std::uint64_t time = here.now(); time < end; time = here.now()) {
    if (end - time > kShortOfTheEnd) here.nap(kNap);
  }
}

template <typename Here>
__device__ void stamp(Here& here, volatile std::uint64_t* moment) {
  *moment = here.now();
}

template <typename Here>
__device__ void hold(Here& here, std::uint64_t duration) {
  stay_until(here, here.now() + duration);
}

template <typename Here>
__device__ void hold_since(Here& here, const volatile std::uint64_t* since, std::uint64_t duration,
                           volatile std::uint64_t* ended) {
  stay_until(here, *since + duration);
  *ended = here.now();
}

template <typename Here>
__device__ void sm_numbers(Here& here, std::uint32_t* numbers) {
  if (here.thread() == 0) numbers[here.block()] = here.sm();
  const std::uint64_t end = here.now() + kStay;
  while (here.now() < end) continue;
}

template <typename Here>
__device__ void count_up(Here& here, double* numbers, std::int64_t count, double start) {
  for (std::int64_t i = here.first(); i < count; i += here.step()) {
    numbers[i] = start + static_cast<double>(i);
  }
}

template <typename Here>
__device__ void copy(Here& here, const uint4* from, uint4* to, std::int64_t words) {
  for (std::int64_t i = here.first(); i < words; i += here.step()) to[i] = from[i];
}

}  // namespace penstock::kernel_bodies
