#pragma once
// The main function of all executables, the limit of their address space, and the start of another
// executable.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/extensions.hpp"
#include "cli/outcome.hpp"

namespace penstock {

/// The choice whether the address space is limited. With a limit, a shape that needs too much memory ends
/// with an error (exit code 2). Without a limit, the kernel might kill processes. Executables with GPU
/// libraries need `unbounded`, because these libraries reserve more addresses than the machine has memory.
enum class AddressSpace : std::uint8_t { bounded_by_memory, unbounded };

/// Runs the program and returns its exit code.
int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions);

/// Limits the address space to its present size plus three quarters of the available memory. The memory may
/// be limited by control groups. Without this limit, the kernel could grant more memory than exists and later
/// kill a process. With it, allocations throw std::bad_alloc.
void bound_address_space();

/// Restores the limit that the process had at its start. Must be called before become(), because CUDA and
/// NCCL reserve more addresses than the machine has memory.
void restore_address_space();

/// Replaces this process by the named executable in the same folder, with the same arguments. Returns only if
/// this fails. The error (exit code 77) says that `what` needs the executable.
UserError become(std::string_view executable, const std::vector<std::string>& arguments,
                 std::string_view what);

}  // namespace penstock
