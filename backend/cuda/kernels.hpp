#pragma once
// The kernels: one thread each, except where said otherwise, and bounded in time: none waits for another.
// C++17, so that kernels.cu can include it. Times are %globaltimer, in ns: one clock for all partitions of a
// GPU.

#include <cstdint>

#include <driver_types.h>

namespace penstock {

/// Writes the moment when it runs.
void launch_stamp(std::uint64_t* moment, cudaStream_t stream);

/// Ends duration_ns after it started.
///
/// One thread holds a worker, not one block on each SM of its partition: the worker gives its stream nothing
/// else meanwhile, so that the partition is held all the same, for exactly the stated time. Blocks on all SMs
/// would end together only when all start together, which nothing guarantees, and would heat the GPU and
/// lower its clocks.
void launch_hold(std::uint64_t duration_ns, cudaStream_t stream);

/// Ends duration_ns after the moment in `since`, or at once where that has passed; writes when it ended.
void launch_hold_since(const std::uint64_t* since, std::uint64_t duration_ns, std::uint64_t* ended,
                       cudaStream_t stream);

/// `blocks` blocks, each of which writes the number of its SM and stays there for a while, so that the others
/// spread over the stream's partition.
void launch_sm_numbers(std::uint32_t* numbers, std::int32_t blocks, cudaStream_t stream);

/// numbers[i] = start + i for all i < count; many threads.
void launch_count_up(double* numbers, std::int64_t count, double start, cudaStream_t stream);

/// Copies in 16-byte words with `blocks` blocks: work that memory bounds. Both pointers aligned, words >= 0.
void launch_copy(const void* from, void* to, std::int64_t words, std::int32_t blocks, cudaStream_t stream);

}  // namespace penstock
