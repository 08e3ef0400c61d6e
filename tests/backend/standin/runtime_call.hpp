#pragma once
// What all functions of the runtime begin with. Private to the stand-in.

#include <cuda_runtime_api.h>

#include "tests/backend/standin/devices.hpp"

namespace standin {

/// A question changes nothing: who polls need not look again for it.
enum class Question : bool { no, yes };

/// Notes the call and lets its time pass. Other than success: the call fails with that.
cudaError_t enter(const char* name, Question question = Question::no);
/// Keeps the error for cudaGetLastError().
cudaError_t failed(cudaError_t error);
Stream* stream_of(cudaStream_t handle);

}  // namespace standin
