#pragma once
// Limits the address space of this process, so that a shape that needs too much memory ends with
// std::bad_alloc.

namespace penstock {

/// Limits the address space to the present size plus three quarters of the available memory of the machine
/// and its control groups. Without a limit, the kernel would grant more memory than exists and later kill
/// some process.
void bound_address_space();

/// Restores the limit with which the process was started. It must be called before the process becomes
/// another executable, because CUDA and NCCL reserve more addresses than the machine has memory.
void restore_address_space();

}  // namespace penstock
