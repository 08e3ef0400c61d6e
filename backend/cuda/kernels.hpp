#pragma once
// Functions that launch the kernels. Unless stated otherwise, a kernel has one thread. Every kernel ends
// after a limited time, because it waits for no other kernel. Times are ns of %globaltimer, a clock that all
// partitions of a GPU share. The file is C++17, so that kernels.cu can include it.

#include <cstdint>

#include <driver_types.h>

namespace penstock {

/// Launches a kernel that writes the present time into `moment`.
void launch_stamp(std::uint64_t* moment, cudaStream_t stream);

/// Launches a kernel that runs for `duration_ns`.
/// One thread on one SM is enough to occupy a worker: later work on the worker's stream waits for it. The
/// rest of the worker's partition is therefore idle for exactly this time. Blocks on all SMs might start
/// and end at different times. They would also heat the GPU and lower its clock rate.
void launch_hold(std::uint64_t duration_ns, cudaStream_t stream);

/// Launches a kernel that runs until `duration_ns` after the time in `since`. If this moment has passed, the
/// kernel ends at once. The kernel writes the time of its end into `ended`.
void launch_hold_since(const std::uint64_t* since, std::uint64_t duration_ns, std::uint64_t* ended,
                       cudaStream_t stream);

/// Launches a kernel of `blocks` blocks. Each block writes the number of its SM into `numbers`. It then
/// occupies the SM for 200 us, so that the other blocks use all SMs of the stream's partition.
void launch_sm_numbers(std::uint32_t* numbers, std::int32_t blocks, cudaStream_t stream);

/// Launches a kernel that sets numbers[i] = start + i for all i < count. Uses many threads.
void launch_count_up(double* numbers, std::int64_t count, double start, cudaStream_t stream);

/// Launches a kernel that copies `words` words of 16 bytes with `blocks` blocks. Its speed is limited by the
/// memory bandwidth. Both pointers must be aligned to 16 bytes, and words >= 0.
void launch_copy(const void* from, void* to, std::int64_t words, std::int32_t blocks, cudaStream_t stream);

}  // namespace penstock
