#pragma once
// The running executable: the common main function of all executables, the limit of its addresses, and how it
// becomes another executable.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/extensions.hpp"
#include "cli/outcome.hpp"

namespace penstock {

/// The choice whether the address space is limited. With the limit, a shape that needs too much memory ends
/// with an error (exit 2), and the kernel kills no process. Executables for GPUs need `unbounded`, because
/// their libraries reserve more addresses than the machine has memory.
enum class AddressSpace : std::uint8_t { bounded_by_memory, unbounded };

/// Runs the program and returns its exit status.
int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions);

// Limits the address space of this process, so that a shape that needs too much memory ends with
// std::bad_alloc.

/// Limits the address space to the present size plus three quarters of the available memory of the machine
/// and its control groups. Without a limit, the kernel would grant more memory than exists and later kill
/// some process.
void bound_address_space();

/// Restores the limit with which the process was started. It must be called before the process becomes
/// another executable, because CUDA and NCCL reserve more addresses than the machine has memory.
void restore_address_space();

// Starts the executables beside this one that have extensions (extensions.hpp).

/// Replaces this process by the executable of that name in the same folder, with the same arguments. Returns
/// only if that fails, with a failure (exit 77) which says that `what` needs it.
UserError become(std::string_view executable, const std::vector<std::string>& arguments,
                 std::string_view what);

}  // namespace penstock
