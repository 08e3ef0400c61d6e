#pragma once
// What both forms of the stand-in say of a device, of numbers and of errors.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>

namespace standin {

/// What every run says first: nothing here is a measurement of a GPU.
inline constexpr const char* kFirstLine =
    "stand-in: a model of CUDA and NCCL for tests; its times are no GPU's";

cudaDeviceProp properties_of(int sms, int capability);

/// Of one number.
std::size_t bytes_of(ncclDataType_t type);
/// Adds `count` numbers. False: of a type that the stand-in cannot add.
bool add_to(std::byte* sum, const std::byte* addend, std::size_t count, ncclDataType_t type);

/// A mechanism of the tests' own modules is left out or wrong on purpose. The free form breaks none.
bool breaks_on_purpose(const char* mechanism);

}  // namespace standin
