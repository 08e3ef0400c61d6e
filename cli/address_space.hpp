#pragma once
// Limits the addresses of this process, so that a shape that exceeds the memory ends with std::bad_alloc.

namespace penstock {

/// Limits the address space to what is mapped now plus three quarters of the memory that the machine and its
/// control groups have left. Without a limit the kernel would promise more memory than there is, and later
/// kill some process.
void bound_address_space();

/// Restores the limit with which the process was started. The executables that `penstock` becomes inherit the
/// limit, and CUDA and NCCL reserve more addresses than there is memory.
void restore_address_space();

}  // namespace penstock
