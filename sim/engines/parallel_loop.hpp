#pragma once
// Loops over all cores with oneTBB that the thread sanitizer can check.

#include <cstddef>

#include <tbb/parallel_for.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace penstock {

/// Calls `body(i)` once for each i in [0, count), several at a time, and waits for all calls. An exception of
/// a call ends the loop and is thrown here.
template <typename Body>
void parallel_loop(std::size_t count, const Body& body) {
#if defined(__SANITIZE_THREAD__)
  // oneTBB's library is built without the sanitizer. So the sanitizer does not see that its threads start
  // after this one and finish before the loop returns. These calls state it.
  char asked = 0;
  char done = 0;
  __tsan_release(&asked);
  tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
    __tsan_acquire(&asked);
    body(i);
    __tsan_release(&done);
  });
  __tsan_acquire(&done);
#else
  tbb::parallel_for(std::size_t{0}, count, body);
#endif
}

}  // namespace penstock
