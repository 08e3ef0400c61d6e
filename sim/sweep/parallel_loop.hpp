#pragma once
// A parallel loop on all cores with oneTBB. The thread sanitizer can check it.

#include <cstddef>

#include <tbb/parallel_for.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace penstock {

/// Calls `body(i)` once for each i in [0, count), on several threads, and waits for all calls. If a call
/// throws an exception, the loop ends and this function throws the exception.
template <typename Body>
void parallel_loop(std::size_t count, const Body& body) {
#if defined(__SANITIZE_THREAD__)
  // oneTBB's library is built without the sanitizer. The sanitizer therefore does not see that the library's
  // threads start after this call and finish before the loop returns. The calls below tell the sanitizer
  // about this order.
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
