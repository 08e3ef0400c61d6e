#pragma once
// The common main function of all executables.

#include <cstdint>

#include "cli/extensions.hpp"

namespace penstock {

/// Says whether addresses are limited, so that a shape that exceeds the memory ends with an error (exit 2)
/// and the kernel kills no process. Devices reserve more addresses than there is memory, so they need
/// `unbounded`.
enum class AddressSpace : std::uint8_t { bounded_by_memory, unbounded };

/// Runs the program and returns the exit status.
int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions);

}  // namespace penstock
