#pragma once
// The common main function of all executables.

#include <cstdint>

#include "cli/extensions.hpp"

namespace penstock {

/// The choice whether the address space is limited. With the limit, a shape that needs too much memory ends
/// with an error (exit 2), and the kernel kills no process. Executables for GPUs need `unbounded`, because
/// their libraries reserve more addresses than the machine has memory.
enum class AddressSpace : std::uint8_t { bounded_by_memory, unbounded };

/// Runs the program and returns its exit status.
int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions);

}  // namespace penstock
