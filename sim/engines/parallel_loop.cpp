// What the thread sanitizer cannot judge: the tasks of oneTBB, whose library is built without it, so that it
// does not see how they are handed over. What loops do in them is watched (parallel_loop.hpp), and so are
// threads of our own. The words stand in the program and not in a file, so that commands which tests start
// have them, too.

#include "sim/engines/parallel_loop.hpp"

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions() {
  return "race:tbb::detail\n"
         "race:oneapi/tbb\n"
         "called_from_lib:libtbb.so\n";
}
#endif
