// Kernels that take a given time, record the time, or test the hardware. The time is %globaltimer, which all
// SMs of a GPU share. A kernel that takes a given time sleeps in short naps until shortly before its end.
// Then it polls without pause, because a nap may take twice as long as requested:
//
//     |start ~~~~ __nanosleep(500) ~~~~ |spin 2 us| end
//
// After each nap, the kernel compares the present time with its end. It does not count naps, so delays do not
// add up. The bodies of the kernels are in kernel_bodies.hpp. Tests also run them on the host.

#include "backend/cuda/kernels.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

#include "backend/cuda/kernel_bodies.hpp"
#include "backend/cuda/launch_count.hpp"

namespace penstock {
namespace {

constexpr int kThreads = 256;

/// The thread that runs a kernel, in the form that the kernel bodies need.
struct Here {
  __device__ std::uint64_t now() const {
    std::uint64_t time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
  }
  __device__ void nap(unsigned ns) const { __nanosleep(ns); }
  __device__ std::uint32_t sm() const {
    std::uint32_t number;
    asm volatile("mov.u32 %0, %smid;" : "=r"(number));
    return number;
  }
  __device__ unsigned block() const { return blockIdx.x; }
  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ std::int64_t first() const {
    return blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  }
  __device__ std::int64_t step() const { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }
};

__global__ void stamp(volatile std::uint64_t* moment) {
  Here here;
  kernel_bodies::stamp(here, moment);
}

__global__ void hold(std::uint64_t duration) {
  Here here;
  kernel_bodies::hold(here, duration);
}

__global__ void hold_since(const volatile std::uint64_t* since, std::uint64_t duration,
                           volatile std::uint64_t* ended) {
  Here here;
  kernel_bodies::hold_since(here, since, duration, ended);
}

__global__ void sm_numbers(std::uint32_t* numbers) {
  Here here;
  kernel_bodies::sm_numbers(here, numbers);
}

__global__ void count_up(double* numbers, std::int64_t count, double start) {
  Here here;
  kernel_bodies::count_up(here, numbers, count, start);
}

__global__ void copy(const uint4* from, uint4* to, std::int64_t words) {
  Here here;
  kernel_bodies::copy(here, from, to, words);
}

void check_launch(const char* kernel) {
  ++launches_of_this_thread;
  const cudaError_t result = cudaGetLastError();
  if (result == cudaSuccess) return;
  throw std::runtime_error(std::string("launch of ") + kernel + ": " + cudaGetErrorName(result) + ": " +
                           cudaGetErrorString(result));
}

}  // namespace

void launch_stamp(std::uint64_t* moment, cudaStream_t stream) {
  stamp<<<1, 1, 0, stream>>>(moment);
  check_launch("stamp");
}

void launch_hold(std::uint64_t duration_ns, cudaStream_t stream) {
  hold<<<1, 1, 0, stream>>>(duration_ns);
  check_launch("hold");
}

void launch_hold_since(const std::uint64_t* since, std::uint64_t duration_ns, std::uint64_t* ended,
                       cudaStream_t stream) {
  hold_since<<<1, 1, 0, stream>>>(since, duration_ns, ended);
  check_launch("hold_since");
}

void launch_sm_numbers(std::uint32_t* numbers, std::int32_t blocks, cudaStream_t stream) {
  sm_numbers<<<blocks, 32, 0, stream>>>(numbers);
  check_launch("sm_numbers");
}

void launch_count_up(double* numbers, std::int64_t count, double start, cudaStream_t stream) {
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  count_up<<<static_cast<unsigned>(blocks < 1024 ? blocks : 1024), kThreads, 0, stream>>>(numbers, count,
                                                                                          start);
  check_launch("count_up");
}

void launch_copy(const void* from, void* to, std::int64_t words, std::int32_t blocks, cudaStream_t stream) {
  copy<<<blocks, kThreads, 0, stream>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to), words);
  check_launch("copy");
}

}  // namespace penstock
