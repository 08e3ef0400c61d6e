#pragma once
// Launches the kernels. Each has one thread, except where stated otherwise, and ends within a bounded time:
// none waits for another. C++17, so that kernels.cu can include it. Times are %globaltimer in ns: one clock
// for all partitions of a GPU.

#include <cstdint>

#include <driver_types.h>

namespace penstock {

/// Writes the time at which the kernel runs.
void launch_stamp(std::uint64_t* moment, cudaStream_t stream);

/// Runs for duration_ns.
///
/// One thread on one SM is enough to hold a worker. The worker enqueues nothing else on its stream in the
/// meantime, so the whole partition is held, for exactly the stated time. Blocks on all SMs would end
/// together only if they all started together, which nothing guarantees. They would also heat the GPU and
/// lower its clocks.
void launch_hold(std::uint64_t duration_ns, cudaStream_t stream);

/// Runs until duration_ns after the moment in `since`, or ends at once if that has passed. Writes the time of
/// its end.
void launch_hold_since(const std::uint64_t* since, std::uint64_t duration_ns, std::uint64_t* ended,
                       cudaStream_t stream);

/// Runs `blocks` blocks. Each writes the number of its SM and stays there for a while, so that the others
/// spread over the stream's partition.
void launch_sm_numbers(std::uint32_t* numbers, std::int32_t blocks, cudaStream_t stream);

/// Sets numbers[i] = start + i for all i < count. Uses many threads.
void launch_count_up(double* numbers, std::int64_t count, double start, cudaStream_t stream);

/// Copies 16-byte words with `blocks` blocks, limited by the memory's bandwidth. Both pointers must be
/// aligned, and words >= 0.
void launch_copy(const void* from, void* to, std::int64_t words, std::int32_t blocks, cudaStream_t stream);

}  // namespace penstock
