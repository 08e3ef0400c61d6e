// Parts of the backend that a mutant breaks as a whole: the linker sends every call of them here first
// (--wrap), and with no mutant it goes on to the product's own.

#include <algorithm>

#include "backend/cuda/link_slots.hpp"
#include "backend/cuda/stream.hpp"
#include "schedules/check/flat_program.hpp"
#include "tests/backend/standin/world.hpp"

using penstock::CudaEvent;
using penstock::FlatProgram;
using penstock::kNone;
using penstock::LinkSlots;
using penstock::WaitLimits;

LinkSlots real_link_slots(const FlatProgram& flat) asm("__real__ZN8penstock10link_slotsERKNS_11FlatProgramE");
LinkSlots wrapped_link_slots(const FlatProgram& flat) asm(
    "__wrap__ZN8penstock10link_slotsERKNS_11FlatProgramE");

/// All messages of a pair take the same slot, and none waits for the one before.
LinkSlots wrapped_link_slots(const FlatProgram& flat) {
  LinkSlots slots = real_link_slots(flat);
  if (standin::this_thread == nullptr || !standin::world().has_mutant("a slot is used again at once"))
    return slots;
  for (auto& [edge, count] : slots.count) count = 1;
  std::ranges::replace_if(slots.slot, [](std::int32_t slot) { return slot != kNone; }, 0);
  std::ranges::fill(slots.next, kNone);
  return slots;
}

void real_watch(const CudaEvent& event,
                const WaitLimits& limits) asm("__real__ZN8penstock5watchERKNS_9CudaEventERKNS_10WaitLimitsE");
void wrapped_watch(const CudaEvent& event, const WaitLimits& limits) asm(
    "__wrap__ZN8penstock5watchERKNS_9CudaEventERKNS_10WaitLimitsE");

void wrapped_watch(const CudaEvent& event, const WaitLimits& limits) {
  const bool breaks = standin::this_thread != nullptr &&
                      standin::world().has_mutant("a stamp is read before its event has passed");
  if (!breaks) real_watch(event, limits);
}
