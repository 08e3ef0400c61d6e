// Checks the result of each CUDA call directly. CUDA stores an error and reports it again at a later,
// unrelated call. An error is therefore cleared once it has been read.

#include "backend/cuda/cuda_error.hpp"

#include <stdexcept>
#include <string>
#include <string_view>

#include <cuda_runtime_api.h>
#include <driver_types.h>
#include <fmt/format.h>

namespace penstock {
namespace {

std::string sentence(std::string_view call, int code, std::string_view name, std::string_view meaning) {
  return fmt::format("{}: {} ({}): {}", call, name, code, meaning);
}

}  // namespace

CudaError::CudaError(std::string_view call, int code, std::string_view name, std::string_view meaning)
    : std::runtime_error(sentence(call, code, name, meaning)), call_(call), code_(code) {}

std::string in_words(cudaError_t result, std::string_view call) {
  return sentence(call, result, cudaGetErrorName(result), cudaGetErrorString(result));
}

void check_cuda(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) return;
  // This clears the error, which the next launch would otherwise report again.
  static_cast<void>(cudaGetLastError());
  throw CudaError(call, result, cudaGetErrorName(result), cudaGetErrorString(result));
}

}  // namespace penstock
