#pragma once
// What all functions of the runtime begin with. Private to the stand-in.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tests/backend/standin/devices.hpp"

namespace standin {

/// A question changes nothing: who polls need not look again for it. Neither does what concerns its thread
/// alone.
enum class Sort : std::uint8_t { deed, question, own_affair };

/// Notes the call and lets its time pass; `about` is what a question asks. Other than success: the call fails
/// with that.
cudaError_t enter(const char* name, Sort sort = Sort::deed, const void* about = nullptr);
/// Keeps the error for cudaGetLastError().
cudaError_t failed(cudaError_t error);
Stream* stream_of(cudaStream_t handle);

}  // namespace standin
