#pragma once
// The beginning of all functions of the runtime. Only the stand-in uses it.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tests/backend/standin/devices.hpp"

namespace standin {

/// The kinds of calls. A `question` changes no state, and an `own_affair` changes only the state of its
/// thread. So threads that poll need not check again after such calls.
enum class Sort : std::uint8_t { deed, question, own_affair };

/// Records the call and lets its time pass. `about` is the object of a question. If the result is not
/// cudaSuccess, the call must fail with this error.
cudaError_t enter(const char* name, Sort sort = Sort::deed, const void* about = nullptr);
/// Stores the error for cudaGetLastError() and returns it.
cudaError_t failed(cudaError_t error);
Stream* stream_of(cudaStream_t handle);

}  // namespace standin
