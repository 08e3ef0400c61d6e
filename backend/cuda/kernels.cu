// Kernels that hold time, stamp it, or test what a run builds on. Time is %globaltimer, which all SMs of a
// GPU share. A holding kernel naps until shortly before its end and then looks without pause, since a nap may
// take twice as long as asked:
//
//   |start ~~~~ __nanosleep(500) ~~~~ |spin 2 us| end
//
// Ends are computed from moments, not from counted rounds, so that lateness does not add up.

#include "backend/cuda/kernels.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace penstock {
namespace {

constexpr std::uint64_t kShortOfTheEnd = 2000;  // ns before which napping stops
constexpr unsigned kNap = 500;
constexpr std::uint64_t kStay = 200000;
constexpr int kThreads = 256;

__device__ std::uint64_t now() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__device__ void stay_until(std::uint64_t end) {
  for (std::uint64_t time = now(); time < end; time = now()) {
    if (end - time > kShortOfTheEnd) __nanosleep(kNap);
  }
}

__global__ void stamp(volatile std::uint64_t* moment) { *moment = now(); }

__global__ void hold(std::uint64_t duration) { stay_until(now() + duration); }

__global__ void hold_since(const volatile std::uint64_t* since, std::uint64_t duration,
                           volatile std::uint64_t* ended) {
  stay_until(*since + duration);
  *ended = now();
}

__global__ void sm_numbers(std::uint32_t* numbers) {
  std::uint32_t number;
  asm volatile("mov.u32 %0, %smid;" : "=r"(number));
  if (threadIdx.x == 0) numbers[blockIdx.x] = number;
  const std::uint64_t end = now() + kStay;
  while (now() < end) continue;
}

__global__ void count_up(double* numbers, std::int64_t count, double start) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    numbers[i] = start + static_cast<double>(i);
  }
}

__global__ void multiply_adds(float* result, std::int32_t rounds) {
  float a = static_cast<float>(threadIdx.x) * 1e-3F;
  float b = a + 1;
  float c = a + 2;
  float d = a + 3;
  for (std::int32_t i = 0; i < rounds; ++i) {
    a = fmaf(a, 1.0001F, 0.5F);
    b = fmaf(b, 1.0001F, 0.5F);
    c = fmaf(c, 1.0001F, 0.5F);
    d = fmaf(d, 1.0001F, 0.5F);
  }
  if (a + b + c + d == 12345.0F) *result = a;  // never; but the compiler must not drop the loop
}

__global__ void copy(const uint4* from, uint4* to, std::int64_t words) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < words;
       i += step) {
    to[i] = from[i];
  }
}

void check_launch(const char* kernel) {
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

void launch_multiply_adds(float* result, std::int32_t blocks, std::int32_t rounds, cudaStream_t stream) {
  multiply_adds<<<blocks, kThreads, 0, stream>>>(result, rounds);
  check_launch("multiply_adds");
}

void launch_copy(const void* from, void* to, std::int64_t words, std::int32_t blocks, cudaStream_t stream) {
  copy<<<blocks, kThreads, 0, stream>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to), words);
  check_launch("copy");
}

}  // namespace penstock
