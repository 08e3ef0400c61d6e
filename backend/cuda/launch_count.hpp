#pragma once
// Counts launches, because a stream takes only about a thousand of them before a launch blocks the host. The
// file is C++17, so that kernels.cu can include it.

#include <cstdint>

namespace penstock {

/// The number of launches: kernels, copies, event records and waits for events that the calling thread has
/// enqueued so far, on all streams together.
inline thread_local std::int64_t launches_of_this_thread = 0;

/// The largest number of unfinished launches of a stream. On an H200, the launch after 1021 unfinished ones
/// blocked. A quarter is left for launches that were counted too low.
constexpr std::int64_t kMostLaunches = 768;

}  // namespace penstock
