#pragma once
// Computes the memory and the address space that this process can still use.

#include <optional>

#include "scenarios/host/control_groups.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns the unused bytes of the machine's memory, or nothing if the system does not report them.
std::optional<Bytes> available_memory();
/// Returns the bytes that the control groups of this process still allow. Cached files do not count as used.
/// Returns nothing if no group has a limit.
std::optional<Bytes> memory_of_control_groups(const ControlGroupFiles& files = {});
/// Returns three quarters of the smaller of available_memory() and memory_of_control_groups(). The rest is
/// for other processes and for memory that is not counted.
std::optional<Bytes> memory_to_take(const ControlGroupFiles& files = {});

/// Returns the bytes of address space that this process has mapped, including libraries and untouched pages.
std::optional<Bytes> addresses_in_use();
/// Returns the bytes that the limit on address space (ulimit -v) still allows, or nothing if there is no
/// limit.
std::optional<Bytes> addresses_left();
/// Returns the bytes of address space for the stack of a new thread; 0 if unknown.
Bytes stack_of_a_thread();

/// Returns the bytes that this process can still use: memory_to_take(), limited by addresses_left(). Returns
/// nothing if neither is known.
std::optional<Bytes> memory_within_reach();

}  // namespace penstock
