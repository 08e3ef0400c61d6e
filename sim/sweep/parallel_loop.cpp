// Suppresses false reports of the thread sanitizer about oneTBB. oneTBB's library is built without the
// sanitizer, so the sanitizer does not see how tasks are passed between threads. The bodies of loops
// (parallel_loop.hpp) and Penstock's own threads are still checked. The list is part of the program and
// not a file, so that it also applies to commands that tests start.

#include "sim/sweep/parallel_loop.hpp"

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions() {
  return "race:tbb::detail\n"
         "race:oneapi/tbb\n"
         "called_from_lib:libtbb.so\n";
}
#endif
