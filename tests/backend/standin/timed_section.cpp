// execute() is the timed section: the linker sends every call of it here first (--wrap), so that waits and
// allocations by the threads that it starts are counted, with no line of the product changed.

#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "tests/backend/standin/world.hpp"

using Answer = tl::expected<penstock::Timeline, penstock::ExecutionError>;

Answer real_execute(const penstock::Execution& execution) asm("__real__ZN8penstock7executeERKNS_9ExecutionE");
Answer wrapped_execute(const penstock::Execution& execution) asm(
    "__wrap__ZN8penstock7executeERKNS_9ExecutionE");

Answer wrapped_execute(const penstock::Execution& execution) {
  if (standin::this_thread == nullptr) return real_execute(execution);
  standin::world().is_timed = true;
  Answer answer = real_execute(execution);
  standin::world().is_timed = false;
  return answer;
}
