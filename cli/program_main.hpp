#pragma once
// What the executables have in common: run_command_line() with a last resort for faults.

#include <cstdint>

#include "cli/extensions.hpp"

namespace penstock {

/// Whether a shape that is too large for the machine ends with an error (exit 2) instead of having the kernel
/// end some process. Devices reserve more addresses than there is memory and are not bounded.
enum class AddressSpace : std::uint8_t { bounded_by_memory, unbounded };

/// The exit status.
int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions);

}  // namespace penstock
