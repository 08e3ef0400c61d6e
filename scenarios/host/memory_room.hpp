#pragma once
// What this process can still have of the memory and the addresses of the machine that it runs on.

#include <optional>

#include "scenarios/host/control_groups.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Bytes of the machine that nobody uses; nothing where it does not say.
std::optional<Bytes> available_memory();
/// Bytes that the control groups of this process leave, a cache of files not counted as taken; nothing where
/// none has a bound.
std::optional<Bytes> memory_of_control_groups(const ControlGroupFiles& files = {});
/// Three quarters of the less of those two: the rest is for what runs beside, and for what nobody counts.
std::optional<Bytes> memory_to_take(const ControlGroupFiles& files = {});

/// Of this process: bytes of all that it has mapped, also of libraries and of what it has not touched.
std::optional<Bytes> addresses_in_use();
/// Bytes that its bound on addresses (ulimit -v) leaves; nothing where there is none.
std::optional<Bytes> addresses_left();
/// Addresses that the stack of a new thread takes; 0 where that cannot be known.
Bytes stack_of_a_thread();

/// Bytes that this process can still have: memory to take, and no more than its bound on addresses leaves.
std::optional<Bytes> memory_within_reach();

}  // namespace penstock
