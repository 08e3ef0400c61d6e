#pragma once
// The properties of devices, numbers and errors in both forms of the stand-in.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>

namespace standin {

/// The first line that every run prints. It says that no time is a measurement of a GPU.
inline constexpr const char* kFirstLine =
    "stand-in: a model of CUDA and NCCL for tests; its times are no GPU's";

/// Returns the properties of a device. `device` is its number on the host, and becomes part of its UUID.
cudaDeviceProp properties_of(int sms, int capability, int device);

/// Returns the bytes of one number of this type.
std::size_t bytes_of(ncclDataType_t type);
/// Adds `count` numbers to `sum`. Returns false if the stand-in cannot add numbers of this type.
bool add_to(std::byte* sum, const std::byte* addend, std::size_t count, ncclDataType_t type);

/// Returns true if the test has disabled or broken this mechanism of the test modules on purpose. In the free
/// form it always returns false.
bool breaks_on_purpose(const char* mechanism);

}  // namespace standin
