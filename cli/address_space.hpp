#pragma once
// The bound on this process's addresses, by which a shape that no memory holds ends as std::bad_alloc.

namespace penstock {

/// Bounds the address space to what is mapped now and three quarters of the memory that the machine and its
/// control groups leave. Without a bound the kernel would promise more memory, and later end some process to
/// keep its promise.
void bound_address_space();

/// Restores the bound that the process was started with. The executables that `penstock` becomes inherit its
/// bound, and CUDA and NCCL reserve more addresses than there is memory.
void restore_address_space();

}  // namespace penstock
