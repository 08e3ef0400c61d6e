// execute() is the timed section, until a rank's thread has given all its actions and follows its queue to
// the end: the linker sends every call of the two here first (--wrap), so that waits and allocations by the
// threads that execute() starts are counted, with no line of the product changed.

#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/launch_ahead.hpp"
#include "tests/backend/standin/world.hpp"

using Answer = tl::expected<penstock::Timeline, penstock::ExecutionError>;

Answer real_execute(const penstock::Execution& execution) asm("__real__ZN8penstock7executeERKNS_9ExecutionE");
Answer wrapped_execute(const penstock::Execution& execution) asm(
    "__wrap__ZN8penstock7executeERKNS_9ExecutionE");

Answer wrapped_execute(const penstock::Execution& execution) {
  if (standin::this_thread == nullptr) return real_execute(execution);
  standin::world().is_timed = true;
  standin::world().timed_waits = standin::world().timed_allocations = 0;
  standin::world().timed_bytes.clear();
  Answer answer = real_execute(execution);
  standin::world().is_timed = false;
  return answer;
}

void real_drain(penstock::LaunchAhead* ahead,
                const std::stop_token& stop) asm("__real__ZN8penstock11LaunchAhead5drainERKSt10stop_token");
void wrapped_drain(penstock::LaunchAhead* ahead, const std::stop_token& stop) asm(
    "__wrap__ZN8penstock11LaunchAhead5drainERKSt10stop_token");

void wrapped_drain(penstock::LaunchAhead* ahead, const std::stop_token& stop) {
  if (standin::this_thread != nullptr) standin::this_thread->timed = false;
  real_drain(ahead, stop);
}
