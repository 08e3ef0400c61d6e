#pragma once
// The parts of main() that all executables share. They run the program, limit the address space, and start
// another executable.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/extensions.hpp"
#include "cli/outcome.hpp"

namespace penstock {

/// The setting that says whether the address space of the process is limited. With a limit, a shape that
/// needs too much memory ends with an error (exit code 2). Without a limit, the kernel might kill
/// processes. Executables with GPU libraries need `unbounded`, because these libraries reserve more
/// addresses than the machine has memory.
enum class AddressSpace : std::uint8_t { bounded_by_memory, unbounded };

/// Runs penstock with these arguments and returns its exit code.
int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions);

/// Limits the address space to its present size plus three quarters of the available memory, including
/// limits of control groups. Without this limit, the kernel could grant more memory than exists and later
/// kill a process. With the limit, allocations throw std::bad_alloc.
void bound_address_space();

/// Restores the limit of the address space that the process had at its start. Must be called before
/// become(), because CUDA and NCCL reserve more addresses than the machine has memory.
void restore_address_space();

/// Replaces this process by the executable `executable` in the same folder, with the same arguments.
/// Returns only if this fails. The error (exit code 77) says that `what` needs the executable.
UserError become(std::string_view executable, const std::vector<std::string>& arguments,
                 std::string_view what);

}  // namespace penstock
