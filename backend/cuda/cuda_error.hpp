#pragma once
// Turns failures of CUDA calls into exceptions. The executor adds the rank and the action to the error text.

#include <stdexcept>
#include <string>
#include <string_view>

#include <driver_types.h>

namespace penstock {

/// The error of a CUDA call, for example "cudaMemcpyAsync: cudaErrorIllegalAddress (700): an illegal memory
/// access was encountered".
class CudaError : public std::runtime_error {
 public:
  CudaError(std::string_view call, int code, std::string_view name, std::string_view meaning);

  const std::string& call() const { return call_; }
  int code() const { return code_; }

 private:
  std::string call_;
  int code_;
};

/// Returns the error text of `result`, which `call` returned. Callers that do not throw use it.
std::string in_words(cudaError_t result, std::string_view call);

/// Throws CudaError if `result`, which `call` returned, is not cudaSuccess.
void check_cuda(cudaError_t result, std::string_view call);

}  // namespace penstock
