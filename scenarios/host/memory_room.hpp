#pragma once
// The memory and the addresses that this process can still use on its machine.

#include <optional>

#include "scenarios/host/control_groups.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns the unused bytes of the machine's memory, or nothing if the machine does not tell.
std::optional<Bytes> available_memory();
/// Returns the bytes that the control groups of this process leave, not counting cached files as used.
/// Returns nothing if no group has a limit.
std::optional<Bytes> memory_of_control_groups(const ControlGroupFiles& files = {});
/// Returns three quarters of the smaller of these two. The rest is for other processes and for memory that is
/// not counted.
std::optional<Bytes> memory_to_take(const ControlGroupFiles& files = {});

/// Returns the bytes that this process has mapped, including libraries and untouched pages.
std::optional<Bytes> addresses_in_use();
/// Returns the bytes that the limit on addresses (ulimit -v) leaves, or nothing if there is no limit.
std::optional<Bytes> addresses_left();
/// Returns the addresses of a new thread's stack; 0 if unknown.
Bytes stack_of_a_thread();

/// Returns the bytes that this process can still use: memory_to_take(), but no more than the limit on
/// addresses leaves.
std::optional<Bytes> memory_within_reach();

}  // namespace penstock
